/** The CORS configuration of a bucket, from XML and to XML. */
import { refuse } from '../../refusals.ts'
import { CORS_BODY_BYTES_MAX, CORS_RULES_MAX, CORS_RULE_ID_LENGTH_MAX } from '../document-limits.ts'
import { readXml } from '../xml/xml-reader.ts'
import { element, list, optional, text } from '../xml/xml-shape.ts'
import { s3Document, textElement } from '../xml/xml-text.ts'

export interface CorsRule {
  readonly id: string | null
  /** Each with one `*` at most, for any text. */
  readonly allowedOrigins: readonly string[]
  readonly allowedMethods: readonly string[]
  /** Each with one `*` at most; in the case they came in. */
  readonly allowedHeaders: readonly string[]
  readonly exposeHeaders: readonly string[]
  readonly maxAgeSeconds: number | null
}

/** Bounded by the size of the document. */
const values = list(text, { min: 0, max: Infinity })
const neededValues = list(text, { min: 1, max: Infinity })

const CONFIGURATION = {
  name: 'CORSConfiguration',
  bytesMax: CORS_BODY_BYTES_MAX,
  shape: element({
    CORSRule: list(
      element({
        ID: optional(text),
        AllowedOrigin: neededValues,
        AllowedMethod: neededValues,
        AllowedHeader: values,
        ExposeHeader: values,
        MaxAgeSeconds: optional(text),
      }),
      { min: 1, max: CORS_RULES_MAX },
    ),
  }),
} as const

const METHODS: ReadonlySet<string> = new Set(['GET', 'PUT', 'POST', 'DELETE', 'HEAD'])
/** RFC 9110 `token`, of which names of headers are made. */
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** @throws S3Error MalformedXML, EntityTooLarge, InvalidRequest */
export function readCorsConfiguration(body: Uint8Array): readonly CorsRule[] {
  return readXml(body, CONFIGURATION).CORSRule.map((rule) => {
    for (const method of rule.AllowedMethod) {
      if (METHODS.has(method)) continue
      throw refuse('InvalidRequest', `Found unsupported HTTP method in CORS config. Unsupported method is ${method}`)
    }
    for (const origin of rule.AllowedOrigin) checkWildcards('AllowedOrigin', origin)
    for (const header of rule.AllowedHeader) {
      checkWildcards('AllowedHeader', header)
      checkHeaderName('AllowedHeader', header)
    }
    for (const header of rule.ExposeHeader) {
      if (header.includes('*')) {
        const reason = 'contains wildcard. We currently do not support wildcard for ExposeHeader.'
        throw refuse('InvalidRequest', `ExposeHeader "${header}" ${reason}`)
      }
      checkHeaderName('ExposeHeader', header)
    }
    return {
      id: rule.ID,
      allowedOrigins: rule.AllowedOrigin,
      allowedMethods: rule.AllowedMethod,
      allowedHeaders: rule.AllowedHeader,
      exposeHeaders: rule.ExposeHeader,
      maxAgeSeconds: rule.MaxAgeSeconds === null ? null : secondsOf(rule.MaxAgeSeconds),
    }
  })
}

/**
 * Refuses what else S3 refuses when a configuration is stored. Reading does not, as a configuration that is stored already stays valid.
 *
 * @throws S3Error InvalidRequest
 */
export function checkStorableRules(rules: readonly CorsRule[]): void {
  if (rules.every(({ id }) => id === null || id.length <= CORS_RULE_ID_LENGTH_MAX)) return
  throw refuse('InvalidRequest', `The ID of a rule must not be longer than ${CORS_RULE_ID_LENGTH_MAX} characters.`)
}

export function renderCorsConfiguration(rules: readonly CorsRule[]): string {
  const elements = rules.map((rule) => {
    const id = textElement('ID', rule.id)
    const maxAge = textElement('MaxAgeSeconds', rule.maxAgeSeconds?.toString() ?? null)
    const origins = textElements('AllowedOrigin', rule.allowedOrigins)
    const methods = textElements('AllowedMethod', rule.allowedMethods)
    const headers =
      textElements('AllowedHeader', rule.allowedHeaders) + textElements('ExposeHeader', rule.exposeHeaders)
    return `<CORSRule>${id}${origins}${methods}${headers}${maxAge}</CORSRule>`
  })
  return s3Document('CORSConfiguration', elements.join(''))
}

const textElements = (name: string, texts: readonly string[]): string =>
  texts.map((text) => textElement(name, text)).join('')

function checkWildcards(element: string, value: string): void {
  if (value.indexOf('*') === value.lastIndexOf('*')) return
  throw refuse('InvalidRequest', `${element} "${value}" can not have more than one wildcard.`)
}

/** The names may stand in headers of answers later. */
function checkHeaderName(element: string, name: string): void {
  if (!HEADER_NAME.test(name)) throw refuse('InvalidRequest', `${element} "${name}" contains invalid character.`)
}

function secondsOf(text: string): number {
  const digits = text.trim()
  if (!/^\d{1,9}$/.test(digits)) throw refuse('MalformedXML')
  return Number(digits)
}
