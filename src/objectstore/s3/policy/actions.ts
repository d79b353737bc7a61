/** The actions of this service, as policies name them: on the bucket itself, or on its objects. */

export const BUCKET_ACTIONS = [
  's3:DeleteBucket',
  's3:DeleteBucketPolicy',
  's3:GetBucketCORS',
  's3:GetBucketLocation',
  's3:GetBucketPolicy',
  's3:ListBucket',
  's3:ListBucketMultipartUploads',
  's3:PutBucketCORS',
  's3:PutBucketPolicy',
] as const

export const OBJECT_ACTIONS = [
  's3:AbortMultipartUpload',
  's3:DeleteObject',
  's3:DeleteObjectTagging',
  's3:GetObject',
  's3:GetObjectTagging',
  's3:ListMultipartUploadParts',
  's3:PutObject',
  's3:PutObjectTagging',
] as const

export type PolicyAction = (typeof BUCKET_ACTIONS | typeof OBJECT_ACTIONS)[number]
