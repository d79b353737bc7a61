/** The function that serves each operation, and what it needs to be given. */
import { corsPreflight, deleteBucketCors, getBucketCors, putBucketCors } from './buckets/bucket-cors.ts'
import { deleteBucketPolicy, getBucketPolicy, putBucketPolicy } from './buckets/bucket-policy.ts'
import { createBucket } from './buckets/create-bucket.ts'
import { deleteBucket, getBucketLocation, headBucket } from './buckets/bucket.ts'
import { listBuckets } from './buckets/list-buckets.ts'
import { listObjects, listObjectsV2 } from './buckets/list-objects.ts'
import { abortMultipartUpload, createMultipartUpload } from './multipart/multipart-upload.ts'
import { completeMultipartUpload } from './multipart/complete-multipart-upload.ts'
import { listMultipartUploads, listParts } from './multipart/multipart-listings.ts'
import { uploadPart } from './multipart/upload-part.ts'
import { uploadPartCopy } from './multipart/upload-part-copy.ts'
import { copyObject } from './objects/copy-object.ts'
import { deleteObject } from './objects/delete-object.ts'
import { deleteObjectTagging, getObjectTagging, putObjectTagging } from './objects/object-tagging.ts'
import { deleteObjects } from './objects/delete-objects.ts'
import { getObject, headObject } from './objects/get-object.ts'
import { postObject } from './form/post-object.ts'
import { putObject } from './objects/put-object.ts'
import type { BucketHandler, BucketNameHandler, FormHandler, ObjectHandler, ServiceHandler } from './handler.ts'
import type { OperationName } from './operations-table.ts'

type OperationHandler =
  | { readonly of: 'service'; readonly handle: ServiceHandler }
  | { readonly of: 'bucket name'; readonly handle: BucketNameHandler }
  | { readonly of: 'form'; readonly handle: FormHandler }
  | { readonly of: 'bucket'; readonly handle: BucketHandler }
  /** The keys are in the body: the handler asks the policy for each. */
  | { readonly of: 'keys'; readonly handle: BucketHandler }
  | { readonly of: 'object'; readonly handle: ObjectHandler }

export type HandlerOf<Kind extends OperationHandler['of']> = Extract<OperationHandler, { readonly of: Kind }>

export type Handlers = Readonly<Record<OperationName, OperationHandler>>

export const handlers: Handlers = {
  ListBuckets: { of: 'service', handle: listBuckets },
  CreateBucket: { of: 'bucket name', handle: createBucket },
  HeadBucket: { of: 'bucket', handle: headBucket },
  GetBucketLocation: { of: 'bucket', handle: getBucketLocation },
  DeleteBucket: { of: 'bucket', handle: deleteBucket },
  PutBucketCors: { of: 'bucket', handle: putBucketCors },
  GetBucketCors: { of: 'bucket', handle: getBucketCors },
  DeleteBucketCors: { of: 'bucket', handle: deleteBucketCors },
  PutBucketPolicy: { of: 'bucket', handle: putBucketPolicy },
  GetBucketPolicy: { of: 'bucket', handle: getBucketPolicy },
  DeleteBucketPolicy: { of: 'bucket', handle: deleteBucketPolicy },
  CorsPreflight: { of: 'bucket name', handle: corsPreflight },
  ListObjectsV2: { of: 'bucket', handle: listObjectsV2 },
  ListObjects: { of: 'bucket', handle: listObjects },
  DeleteObjects: { of: 'keys', handle: deleteObjects },
  PostObject: { of: 'form', handle: postObject },
  PutObject: { of: 'object', handle: putObject },
  GetObject: { of: 'object', handle: getObject },
  HeadObject: { of: 'object', handle: headObject },
  DeleteObject: { of: 'object', handle: deleteObject },
  CopyObject: { of: 'object', handle: copyObject },
  GetObjectTagging: { of: 'object', handle: getObjectTagging },
  PutObjectTagging: { of: 'object', handle: putObjectTagging },
  DeleteObjectTagging: { of: 'object', handle: deleteObjectTagging },
  CreateMultipartUpload: { of: 'object', handle: createMultipartUpload },
  UploadPart: { of: 'object', handle: uploadPart },
  UploadPartCopy: { of: 'object', handle: uploadPartCopy },
  CompleteMultipartUpload: { of: 'object', handle: completeMultipartUpload },
  AbortMultipartUpload: { of: 'object', handle: abortMultipartUpload },
  ListParts: { of: 'object', handle: listParts },
  ListMultipartUploads: { of: 'bucket', handle: listMultipartUploads },
}
