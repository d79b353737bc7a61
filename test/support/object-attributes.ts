/** Attributes of an object of which the client said only that it is text. */
import type { ObjectAttributes } from '../../src/objectstore/operations.ts'

export const PLAIN: ObjectAttributes = {
  contentType: 'text/plain',
  cacheControl: null,
  contentDisposition: null,
  contentEncoding: null,
  contentLanguage: null,
  expires: null,
  metadata: {},
  tags: [],
  storageClass: 'STANDARD',
  encryption: null,
}
