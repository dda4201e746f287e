//! Checks the permissions of a key on the user's bucket before anything is put there, by requests for an object and an upload
//! that do not exist. Servers check permissions first, so a denied request differs from one that merely fails.

use super::client::{BucketAccess, S3Client};
use super::instance::OURS;
use crate::store::*;

/// Refuses a key that lacks permissions for objects with this prefix, or for multipart uploads if those are needed.
pub(super) fn check(
    client: &mut S3Client,
    access: &BucketAccess,
    prefix: &str,
    in_parts: bool,
) -> Result<()> {
    const NO_UPLOAD: &str = "none";
    let (bucket, credentials) = (&access.bucket, Some(&access.credentials));
    let object = format!("{prefix}none");
    let mut list = bucket.list_objects_v2(credentials);
    list.with_prefix(prefix);
    let mut of_bucket = vec![
        ("s3:ListBucket", client.denies(&list)?),
        ("s3:GetBucketVersioning", client.denies_of_bucket("versioning")?),
    ];
    let mut of_objects = vec![
        // Also denied to keys that may not list: only others learn that an object is missing.
        ("s3:GetObject", client.denies(&bucket.get_object(credentials, &object))?),
        ("s3:PutObject", client.denies(&bucket.upload_part(credentials, &object, 1, NO_UPLOAD))?),
        ("s3:DeleteObject", client.denies(&bucket.delete_object(credentials, &object))?),
    ];
    if in_parts {
        of_bucket.push(("s3:ListBucketMultipartUploads", client.denies_of_bucket("uploads")?));
        let abort = bucket.abort_multipart_upload(credentials, &object, NO_UPLOAD);
        of_objects.push(("s3:AbortMultipartUpload", client.denies(&abort)?));
    }
    let statement = |rights: Vec<(&str, bool)>, on: &str| Grant {
        before: "{\"Effect\":\"Allow\",\"Action\":[\"".to_owned(),
        rights: rights
            .into_iter()
            .filter(|(_, is_denied)| *is_denied)
            .map(|(right, _)| right.to_owned())
            .collect(),
        between: "\",\"",
        after: format!("\"],\"Resource\":\"arn:aws:s3:::{}{on}\"}}", bucket.name()),
    };
    let grants = vec![statement(of_bucket, ""), statement(of_objects, &format!("/{OURS}*"))];
    let user = access.credentials.key().to_owned();
    MissingRights { user, by: "these statements of a policy give them", grants, between: "," }.refuse()
}
