/**
 * Tags of an object, from the header `x-amz-tagging: k=v&k2=v2` or from XML.
 *
 * G1  tags that were checked are within the specification's limits, in bytes of UTF-8, with distinct keys, sorted by key
 */
import type { Tag } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'
import {
  TAGGING_BODY_BYTES_MAX,
  TAGS_BYTES_MAX,
  TAGS_MAX,
  TAG_KEY_BYTES_MAX,
  TAG_VALUE_BYTES_MAX,
} from '../document-limits.ts'
import { readXml } from '../xml/xml-reader.ts'
import { element, list, once, text } from '../xml/xml-shape.ts'
import { s3Document, textElement } from '../xml/xml-text.ts'

const TAGGING = {
  name: 'Tagging',
  bytesMax: TAGGING_BODY_BYTES_MAX,
  shape: element({
    TagSet: once(
      element({
        Tag: list(element({ Key: once(text), Value: once(text) }), { min: 0, max: TAGS_MAX, refusal: 'InvalidTag' }),
      }),
    ),
  }),
} as const

/** S3's characters: letters, digits, white space and a few signs, in any script. */
const TAG_TEXT = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u

/** @throws S3Error MalformedXML, EntityTooLarge, InvalidTag */
export const readTagging = (body: Uint8Array): readonly Tag[] =>
  checkedTags(readXml(body, TAGGING).TagSet.Tag.map(({ Key, Value }) => ({ key: Key, value: Value })))

/** @throws S3Error InvalidArgument when it is not URL-encoded, InvalidTag */
export function parseTaggingHeader(header: string): readonly Tag[] {
  const pairs = header.split('&').filter((pair) => pair !== '')
  return checkedTags(
    pairs.map((pair) => {
      const equals = pair.indexOf('=')
      const [key, value] = equals < 0 ? [pair, ''] : [pair.slice(0, equals), pair.slice(equals + 1)]
      return { key: urlDecoded(key, header), value: urlDecoded(value, header) }
    }),
  )
}

export function renderTagging(tags: readonly Tag[]): string {
  const elements = tags.map(({ key, value }) => `<Tag>${textElement('Key', key)}${textElement('Value', value)}</Tag>`)
  return s3Document('Tagging', `<TagSet>${elements.join('')}</TagSet>`)
}

/** G1 */
function checkedTags(tags: readonly Tag[]): readonly Tag[] {
  if (tags.length > TAGS_MAX) throw refuse('InvalidTag', `Object tags cannot be greater than ${TAGS_MAX}`)
  const keys = new Set<string>()
  let tagBytes = 0
  for (const { key, value } of tags) {
    const [keyBytes, valueBytes] = [Buffer.byteLength(key), Buffer.byteLength(value)]
    if (keyBytes === 0 || keyBytes > TAG_KEY_BYTES_MAX || !TAG_TEXT.test(key)) {
      throw invalidTag('The TagKey you have provided is invalid', { TagKey: key })
    }
    if (valueBytes > TAG_VALUE_BYTES_MAX || !TAG_TEXT.test(value)) {
      throw invalidTag('The TagValue you have provided is invalid', { TagKey: key, TagValue: value })
    }
    if (/^aws:/i.test(key)) throw invalidTag('Your TagKey cannot be prefixed with aws:', { TagKey: key })
    if (keys.has(key)) throw invalidTag('Cannot provide multiple Tags with the same key', { TagKey: key })
    keys.add(key)
    tagBytes += keyBytes + valueBytes
  }
  if (tagBytes > TAGS_BYTES_MAX) {
    throw invalidTag(`Tags cannot be greater than ${TAGS_BYTES_MAX} bytes in total`, {})
  }
  return tags.toSorted((a, b) => (a.key < b.key ? -1 : 1))
}

const invalidTag = (message: string, fields: Readonly<Record<string, string>>): S3Error =>
  refuse('InvalidTag', message, { fields })

function urlDecoded(text: string, header: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    throw refuse(
      'InvalidArgument',
      "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.",
      { fields: { ArgumentName: 'x-amz-tagging', ArgumentValue: header } },
    )
  }
}
