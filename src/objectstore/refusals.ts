/**
 * Everything the object store refuses, in one table: the HTTP status, the category and S3's message of each code.
 * Sources: specification "Errors", contract "Object store" (statuses, categories), Amazon S3's list of error codes for the rest.
 */
import { StoreError } from '../errors.ts'
import type { ErrorKind } from '../errors.ts'

/** Value of `x-obj-error-category`. */
export type RefusalCategory = 'client' | 'auth' | 'not-found' | 'conflict' | 'limit' | 'throttle' | 'server'

interface RefusalRule {
  readonly status: number
  readonly category: RefusalCategory
  /** The same request can succeed later without a change. */
  readonly retryable: boolean
  /** What S3 says when nothing more is known. */
  readonly message: string
}

type Messages<Code extends string> = Readonly<Record<Code, string>>
type Rules<Code extends string> = Readonly<Record<Code, RefusalRule>>

const RETRYABLE = { retryable: true }

function rules<Code extends string>(
  status: number,
  category: RefusalCategory,
  messages: Messages<Code>,
  { retryable } = { retryable: false },
): Rules<Code> {
  const ruleOf = ([code, message]: [string, string]) => [code, { status, category, retryable, message }]
  return Object.fromEntries(Object.entries<string>(messages).map(ruleOf)) as Rules<Code> // the same keys
}

export const REFUSALS = {
  ...rules(304, 'conflict', { NotModified: 'Not Modified' }),
  ...rules(400, 'client', {
    BadDigest: 'The Content-MD5 you specified did not match what we received.',
    BadRequest: 'An error occurred when parsing the HTTP request.',
    IllegalLocationConstraintException:
      'The location constraint is incompatible for the region specific endpoint this request was sent to.',
    IncompleteBody: 'You did not provide the number of bytes specified by the Content-Length HTTP header',
    InvalidArgument: 'Invalid Argument',
    InvalidBucketName: 'The specified bucket is not valid.',
    InvalidChunkSizeError: 'Only the last chunk is allowed to have a size less than 8192 bytes',
    InvalidDigest: 'The Content-MD5 you specified was invalid.',
    InvalidEncryptionAlgorithmError: 'The Encryption request you specified is not valid. Supported value: AES256.',
    InvalidLocationConstraint: 'The specified location-constraint is not valid',
    InvalidPart:
      'One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified entity tag may not match ' +
      "the part's entity tag.",
    InvalidPartOrder: 'The list of parts was not in ascending order. Parts must be ordered by part number.',
    InvalidPolicyDocument: 'The content of the form does not meet the conditions specified in the policy document.',
    InvalidRequest: 'Invalid Request',
    InvalidStorageClass: 'The storage class you specified is not valid',
    InvalidTag: 'The tag provided was not a valid tag.',
    InvalidURI: "Couldn't parse the specified URI.",
    MalformedPOSTRequest: 'The body of your POST request is not well-formed multipart/form-data.',
    MalformedPolicy: 'The policy is not valid.',
    MalformedTrailerError:
      'The request contained trailing data that was not well-formed or did not conform to our published schema.',
    MalformedXML: 'The XML you provided was not well-formed or did not validate against our published schema',
    UnexpectedContent: 'This request does not support content.',
    XAmzContentSHA256Mismatch: "The provided 'x-amz-content-sha256' header does not match what was computed.",
  }),
  ...rules(400, 'auth', {
    AuthorizationHeaderMalformed: 'The authorization header is malformed.',
    AuthorizationQueryParametersError: 'The authorization query parameters that you provided are not valid.',
  }),
  ...rules(400, 'limit', {
    EntityTooLarge: 'Your proposed upload exceeds the maximum allowed size',
    EntityTooSmall: 'Your proposed upload is smaller than the minimum allowed size',
    KeyTooLongError: 'Your key is too long',
    MaxMessageLengthExceeded: 'Your request was too big.',
    MaxPostPreDataLengthExceededError: 'Your POST request fields preceding the upload file were too large.',
    MetadataTooLarge: 'Your metadata headers exceed the maximum allowed metadata size',
    RequestHeaderSectionTooLarge:
      'Your request header section exceeds the maximum allowed request header section size.',
  }),
  ...rules(
    400,
    'client',
    {
      RequestTimeout:
        'Your socket connection to the server was not read from or written to within the timeout period. Idle connections will be closed.',
    },
    RETRYABLE,
  ),
  ...rules(403, 'auth', {
    AccessDenied: 'Access Denied',
    InvalidAccessKeyId: 'The AWS Access Key Id you provided does not exist in our records.',
    RequestTimeTooSkewed: 'The difference between the request time and the current time is too large.',
    SignatureDoesNotMatch:
      'The request signature we calculated does not match the signature you provided. Check your key and signing method.',
  }),
  ...rules(404, 'not-found', {
    NoSuchBucket: 'The specified bucket does not exist',
    NoSuchBucketPolicy: 'The bucket policy does not exist',
    NoSuchCORSConfiguration: 'The CORS configuration does not exist',
    NoSuchKey: 'The specified key does not exist.',
    NoSuchUpload:
      'The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.',
    NoSuchVersion: 'The specified version does not exist.',
  }),
  ...rules(405, 'client', { MethodNotAllowed: 'The specified method is not allowed against this resource.' }),
  ...rules(409, 'conflict', {
    BucketAlreadyExists:
      'The requested bucket name is not available. The bucket namespace is shared by all users of the system. Please select a different name ' +
      'and try again.',
    BucketAlreadyOwnedByYou: 'Your previous request to create the named bucket succeeded and you already own it.',
    BucketNotEmpty: 'The bucket you tried to delete is not empty',
    ConditionalRequestConflict:
      'The conditional request cannot succeed due to a conflicting operation against this resource.',
  }),
  ...rules(
    409,
    'conflict',
    {
      OperationAborted:
        'A conflicting conditional operation is currently in progress against this resource. Please try again.',
    },
    RETRYABLE,
  ),
  ...rules(411, 'client', { MissingContentLength: 'You must provide the Content-Length HTTP header.' }),
  ...rules(412, 'conflict', { PreconditionFailed: 'At least one of the pre-conditions you specified did not hold' }),
  ...rules(416, 'client', {
    InvalidPartNumber: 'The requested partnumber is not satisfiable',
    InvalidRange: 'The requested range is not satisfiable',
  }),
  ...rules(500, 'server', { InternalError: 'We encountered an internal error. Please try again.' }, RETRYABLE),
  ...rules(501, 'client', {
    NotImplemented: 'A header you provided implies functionality that is not implemented',
  }),
  ...rules(503, 'throttle', { SlowDown: 'Please reduce your request rate.' }, RETRYABLE),
  ...rules(503, 'server', { ServiceUnavailable: 'Service is unable to handle request.' }, RETRYABLE),
}

export type RefusalCode = keyof typeof REFUSALS

/** Elements of the `<Error>` besides code, message and ids, in their order. */
export type RefusalFields = Readonly<Record<string, string | number>>

export interface RefusalOptions extends ErrorOptions {
  readonly fields?: RefusalFields
  /** Headers of the answer, beside those of every refusal. */
  readonly headers?: readonly (readonly [name: string, value: string])[]
  /** Instead of the code's rule: false for what can never succeed, true for a failure that passes. */
  readonly retryable?: boolean
  /** In a cluster: where the leader is. */
  readonly leader?: string | null
}

export class S3Error extends StoreError {
  declare readonly code: RefusalCode
  readonly fields: RefusalFields
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly retryable: boolean
  /** Where the leader of the cluster is; null: it is not known, or does not matter for the refusal. */
  readonly leader: string | null

  constructor(code: RefusalCode, message: string, options: RefusalOptions = {}) {
    super(kindOf(REFUSALS[code]), code, message, options)
    this.name = 'S3Error'
    this.fields = options.fields ?? {}
    this.headers = options.headers ?? []
    this.retryable = options.retryable ?? REFUSALS[code].retryable
    this.leader = options.leader ?? null
  }

  get status(): number {
    return REFUSALS[this.code].status
  }

  get category(): RefusalCategory {
    return REFUSALS[this.code].category
  }
}

/** In a cluster: the node stopped leading while it served the request. */
export class LeadLost extends Error {}

/** To be thrown, or to be the result of one item of a batch. @param message S3's own by default; never a payload or a secret */
export const refuse = (
  code: RefusalCode,
  message: string = REFUSALS[code].message,
  options?: RefusalOptions,
): S3Error => new S3Error(code, message, options)

/** In a cluster: this node does not lead, and did nothing. @param leader where the leader is; null: it is not known */
export const notLeading = (leader: string | null): S3Error =>
  refuse('SlowDown', 'This node does not lead its cluster at present. Please ask another one, or try again.', {
    leader,
  })

/** In a cluster: this node no longer leads, and cannot tell whether the change was made. */
export const outcomeUnknown = (): S3Error =>
  refuse('InternalError', 'The node lost the lead of its cluster: the change may have been made. Please try again.', {
    cause: new LeadLost(),
  })

function kindOf({ category }: RefusalRule): ErrorKind {
  if (category === 'not-found') return 'notFound'
  if (category === 'conflict') return 'conflict'
  if (category === 'throttle') return 'overloaded'
  return category === 'server' ? 'unavailable' : 'invalid'
}
