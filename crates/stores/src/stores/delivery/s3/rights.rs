//! Checks the permissions of a key on the user's bucket before anything is put there, by requests for an object and an upload
//! that do not exist. Servers check permissions first, so a denied request differs from one that merely fails.

use rusty_s3::S3Action;

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
        ("s3:GetBucketVersioning", client.denies_of_bucket(&[("versioning", "")])?),
    ];
    let mut of_objects = vec![
        // Also denied to keys that may not list: only others learn that an object is missing.
        ("s3:GetObject", client.denies(&bucket.get_object(credentials, &object))?),
        ("s3:PutObject", client.denies(&bucket.upload_part(credentials, &object, 1, NO_UPLOAD))?),
    ];
    if in_parts {
        of_bucket.push(("s3:ListBucketMultipartUploads", client.denies_of_bucket(&[("uploads", "")])?));
        let abort = bucket.abort_multipart_upload(credentials, &object, NO_UPLOAD);
        of_objects.push(("s3:AbortMultipartUpload", client.denies(&abort)?));
    }
    let versioning = client.versioning().ok().flatten();
    if versioning.is_none() {
        // Where versions are kept it would make a delete marker, and the probe beside the mark shows it.
        of_objects.push(("s3:DeleteObject", client.denies(&bucket.delete_object(credentials, &object))?));
    }
    // Where a version is deleted by a code only, no right is enough.
    if versioning.is_some_and(|state| !state.needs_code) {
        let versions = [("versions", ""), ("prefix", prefix)];
        let mut version = bucket.delete_object(credentials, &object);
        version.query_mut().insert("versionId", "null");
        of_bucket
            .push(("s3:GetBucketObjectLockConfiguration", client.denies_of_bucket(&[("object-lock", "")])?));
        of_bucket.push(("s3:ListBucketVersions", client.denies_of_bucket(&versions)?));
        of_objects.push(("s3:DeleteObjectVersion", client.denies(&version)?));
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
