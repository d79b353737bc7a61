/** What a URL may hold of secrets: the user and password before its host, and the values of its query. */

const IN_TEXT = /\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>\\]*/gi
/** Before the host, up to the last `@`. A password that is not encoded may hold what ends a host: what stands behind a colon is then no port. */
const USER = /\/\/(?:[^/?#@]*@|(?!\[)[^/?#@:]*:(?!\d{0,5}(?:[,/?#]|$)).*@)+/g
const QUERY = /([?&])([^=&#]*=)?[^&#]*/g

/** Texts, settings and lines of the log with what URLs in them hold of secrets replaced by `…`. */
export function withoutUrlSecrets(text: string): string {
  if (!text.includes('://')) return text
  return text.replaceAll(IN_TEXT, (url) => url.replaceAll(USER, '//…@').replaceAll(QUERY, '$1$2…'))
}
