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
    let mut lacks = MissingPermissions::default();
    let mut list = bucket.list_objects_v2(credentials);
    list.with_prefix(prefix);
    lacks.of_bucket("s3:ListBucket", client.denies(&list)?);
    lacks.of_bucket("s3:GetBucketVersioning", client.denies_of_bucket("versioning")?);
    // Also denied to keys that may not list: only others learn that an object is missing.
    lacks.of_objects("s3:GetObject", client.denies(&bucket.get_object(credentials, &object))?);
    lacks.of_objects("s3:PutObject", client.denies(&bucket.upload_part(credentials, &object, 1, NO_UPLOAD))?);
    lacks.of_objects("s3:DeleteObject", client.denies(&bucket.delete_object(credentials, &object))?);
    if in_parts {
        lacks.of_bucket("s3:ListBucketMultipartUploads", client.denies_of_bucket("uploads")?);
        let abort = bucket.abort_multipart_upload(credentials, &object, NO_UPLOAD);
        lacks.of_objects("s3:AbortMultipartUpload", client.denies(&abort)?);
    }
    let statement = |rights: Vec<String>, on: &str| Grant {
        before: "{\"Effect\":\"Allow\",\"Action\":[\"".to_owned(),
        rights,
        between: "\",\"",
        after: format!("\"],\"Resource\":\"arn:aws:s3:::{}{on}\"}}", bucket.name()),
    };
    let grants = vec![statement(lacks.bucket, ""), statement(lacks.objects, &format!("/{OURS}*"))];
    let user = access.credentials.key().to_owned();
    MissingRights { user, by: "these statements of a policy give them", grants, between: "," }.refuse()
}

/// Missing permissions, in the names of policies.
#[derive(Default)]
struct MissingPermissions {
    bucket: Vec<String>,
    objects: Vec<String>,
}

impl MissingPermissions {
    fn of_bucket(&mut self, right: &str, is_denied: bool) {
        self.bucket.extend(is_denied.then(|| right.to_owned()));
    }

    fn of_objects(&mut self, right: &str, is_denied: bool) {
        self.objects.extend(is_denied.then(|| right.to_owned()));
    }
}
