/**
 * Every operation of the gateway, in the order of the specification's "Gateway routes": what a request for it looks like, what the caller
 * needs, and what becomes of its body. The one place that says so.
 *
 * O1  a request asks for the first row of its method and target whose selectors and header it has
 * O2  a parameter that selects something in S3, and that the row does not have, asks for something else: NotImplemented. Other parameters
 *     that the row does not have are ignored, as S3 does
 * O3  there are no versions, so the one there is has the id `null`: operations that take a version in S3 take this one and no other
 * O4  an answer waits until everything that was there to be seen is stored. Operations whose answer says only what the store has awaited
 *     itself have `isStored`. So has every change: it is stored when the store says so, and stays stored whatever is lost behind it
 */
import type { Permission } from './auth/principal.ts'
import type { PolicyAction } from './policy/actions.ts'

/** What a deployment may add to the profile. */
export const EXTENSIONS = ['list-v1', 'ignore-acl-headers'] as const
export type Extension = (typeof EXTENSIONS)[number]

export type OperationTarget = 'service' | 'bucket' | 'object' | 'bucket or object'

interface Selector {
  readonly name: string
  /** Null: any value. */
  readonly value: string | null
}

export interface Operation {
  readonly name: OperationName
  readonly method: string
  readonly target: OperationTarget
  /** Query parameters that it must have. */
  readonly selectors: readonly Selector[]
  /** Header that the request must have, without `x-obj-` or `x-amz-`. */
  readonly header: string | null
  /** Query parameters that it takes besides; null: all. */
  readonly parameters: readonly string[] | null
  /** Null: the operation needs no permission. */
  readonly permission: Permission | null
  /** The action that a bucket policy has to allow. Null: no policy is asked. */
  readonly action: PolicyAction | null
  /** How the body is taken. */
  readonly body: 'none' | 'buffered' | 'streamed'
  /** The extension without which the operation does not exist; null: it always does. */
  readonly extension: Extension | null
  /** O4 */
  readonly isStored: boolean
}

const LISTING = ['prefix', 'delimiter', 'encoding-type', 'max-keys']
const UPLOAD = ['partNumber', 'uploadId']
/** O3 */
export const VERSION = 'versionId'
export const ONLY_VERSION = 'null'

const READING = [
  VERSION,
  'partNumber',
  'response-cache-control',
  'response-content-disposition',
  'response-content-encoding',
  'response-content-language',
  'response-content-type',
  'response-expires',
]

/** Target, method, selectors (`cors`, or with its value `list-type=2`), and what the operation needs. */
type Row = readonly [
  target: OperationTarget,
  method: string,
  selectors: readonly string[],
  permission: Permission | null,
  action: Operation['action'],
  body: Operation['body'],
  rest?: {
    readonly parameters?: readonly string[] | null
    readonly header?: string
    readonly extension?: Extension
    readonly isStored?: true
  },
]

// oxfmt-ignore
const ROWS = {
  ListBuckets:             ['service', 'GET',     [],              'list',   null,                            'none', { parameters: ['prefix', 'max-buckets', 'continuation-token', 'bucket-region'] }],

  CreateBucket:            ['bucket',  'PUT',     [],              'admin',  null,                            'buffered', { isStored: true }],
  HeadBucket:              ['bucket',  'HEAD',    [],              'read',   's3:ListBucket',                 'none'],
  GetBucketLocation:       ['bucket',  'GET',     ['location'],    'read',   's3:GetBucketLocation',          'none'],
  DeleteBucket:            ['bucket',  'DELETE',  [],              'admin',  's3:DeleteBucket',               'none', { isStored: true }],
  PutBucketCors:           ['bucket',  'PUT',     ['cors'],        'admin',  's3:PutBucketCORS',              'buffered', { isStored: true }],
  GetBucketCors:           ['bucket',  'GET',     ['cors'],        'admin',  's3:GetBucketCORS',              'none'],
  DeleteBucketCors:        ['bucket',  'DELETE',  ['cors'],        'admin',  's3:PutBucketCORS',              'none', { isStored: true }],
  PutBucketPolicy:         ['bucket',  'PUT',     ['policy'],      'admin',  's3:PutBucketPolicy',            'buffered', { isStored: true }],
  GetBucketPolicy:         ['bucket',  'GET',     ['policy'],      'admin',  's3:GetBucketPolicy',            'none'],
  DeleteBucketPolicy:      ['bucket',  'DELETE',  ['policy'],      'admin',  's3:DeleteBucketPolicy',         'none', { isStored: true }],
  CorsPreflight:           ['bucket or object', 'OPTIONS', [],              null,     null,                            'none', { parameters: null }],
  ListObjectsV2:           ['bucket',  'GET',     ['list-type=2'], 'list',   's3:ListBucket',                 'none', { parameters: [...LISTING, 'continuation-token', 'start-after', 'fetch-owner'], isStored: true }],
  ListMultipartUploads:    ['bucket',  'GET',     ['uploads'],     'list',   's3:ListBucketMultipartUploads', 'none', { parameters: [...LISTING, 'max-uploads', 'key-marker', 'upload-id-marker'] }],
  ListObjects:             ['bucket',  'GET',     [],              'list',   's3:ListBucket',                 'none', { parameters: [...LISTING, 'marker'], extension: 'list-v1' }],
  DeleteObjects:           ['bucket',  'POST',    ['delete'],      'delete', 's3:DeleteObject',               'buffered', { isStored: true }],
  PostObject:              ['bucket',  'POST',    [],              'write',  's3:PutObject',                  'streamed', { isStored: true }],

  UploadPartCopy:          ['object',  'PUT',     UPLOAD,          'write',  's3:PutObject',                  'none', { header: 'copy-source', isStored: true }],
  UploadPart:              ['object',  'PUT',     UPLOAD,          'write',  's3:PutObject',                  'streamed', { isStored: true }],
  PutObjectTagging:        ['object',  'PUT',     ['tagging'],     'write',  's3:PutObjectTagging',           'buffered', { parameters: [VERSION], isStored: true }],
  CopyObject:              ['object',  'PUT',     [],              'write',  's3:PutObject',                  'none', { header: 'copy-source', isStored: true }],
  PutObject:               ['object',  'PUT',     [],              'write',  's3:PutObject',                  'streamed', { isStored: true }],
  ListParts:               ['object',  'GET',     ['uploadId'],    'read',   's3:ListMultipartUploadParts',   'none', { parameters: ['max-parts', 'part-number-marker', 'encoding-type'] }],
  GetObjectTagging:        ['object',  'GET',     ['tagging'],     'read',   's3:GetObjectTagging',           'none', { parameters: [VERSION] }],
  GetObject:               ['object',  'GET',     [],              'read',   's3:GetObject',                  'none', { parameters: READING, isStored: true }],
  HeadObject:              ['object',  'HEAD',    [],              'read',   's3:GetObject',                  'none', { parameters: READING, isStored: true }],
  AbortMultipartUpload:    ['object',  'DELETE',  ['uploadId'],    'delete', 's3:AbortMultipartUpload',       'none', { isStored: true }],
  DeleteObjectTagging:     ['object',  'DELETE',  ['tagging'],     'write',  's3:DeleteObjectTagging',        'none', { parameters: [VERSION], isStored: true }],
  DeleteObject:            ['object',  'DELETE',  [],              'delete', 's3:DeleteObject',               'none', { parameters: [VERSION], isStored: true }],
  CreateMultipartUpload:   ['object',  'POST',    ['uploads'],     'write',  's3:PutObject',                  'none', { isStored: true }],
  CompleteMultipartUpload: ['object',  'POST',    ['uploadId'],    'write',  's3:PutObject',                  'buffered', { isStored: true }],
} as const satisfies Readonly<Record<string, Row>>

export type OperationName = keyof typeof ROWS

function operationOf(name: OperationName, row: Row): Operation {
  const [target, method, selectors, permission, action, body, rest] = row
  const { parameters = [], header = null, extension = null, isStored = false } = rest ?? {}
  return {
    name,
    target,
    method,
    selectors: selectors.map(selectorOf),
    header,
    parameters,
    permission,
    action,
    body,
    extension,
    isStored,
  }
}

function selectorOf(text: string): Selector {
  const [name = '', value = null] = text.split('=')
  return { name, value }
}

/** More selectors first: O1 then needs no order of the rows above. */
export const OPERATIONS: readonly Operation[] = Object.entries<Row>(ROWS)
  .map(([name, row]) => operationOf(name as OperationName, row)) // the keys of the table are the names
  .sort((a, b) => specificity(b) - specificity(a))

function specificity({ selectors, header }: Operation): number {
  return 2 * selectors.length + (header === null ? 0 : 1)
}

/** Parameters that select other operations of S3, beside the selectors of the table. */
const ELSEWHERE = [
  'abac',
  'accelerate',
  'acl',
  'analytics',
  'annotation',
  'append',
  'attributes',
  'encryption',
  'intelligent-tiering',
  'inventory',
  'legal-hold',
  'lifecycle',
  'logging',
  'metadataConfiguration',
  'metadataInventoryTable',
  'metadataJournalTable',
  'metadataTable',
  'metrics',
  'notification',
  'object-lock',
  'ownershipControls',
  'policyStatus',
  'publicAccessBlock',
  'renameObject',
  'replication',
  'requestPayment',
  'restore',
  'retention',
  'select',
  'select-type',
  'session',
  'torrent',
  VERSION,
  'versioning',
  'versions',
  'website',
]

/** O2 */
export const SELECTING_PARAMETERS: ReadonlySet<string> = new Set([
  ...ELSEWHERE,
  ...OPERATIONS.flatMap(({ selectors }) => selectors.map(({ name }) => name)),
])

/** Name of the function that serves it, for `x-obj-handler`. */
export const handlerName = (name: OperationName): string => name.charAt(0).toLowerCase() + name.slice(1)
