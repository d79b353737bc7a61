/** Removes the secrets that a URL may hold: the user and password before its host, and the values of its query. */

const IN_TEXT = /\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>\\]*/gi
/** User and password: all up to the last `@`. An unencoded password may hold a character that ends a host; then the text behind the colon is no port. */
const USER = /\/\/(?:[^/?#@]*@|(?!\[)[^/?#@:]*:(?!\d{0,5}(?:[,/?#]|$)).*@)+/g
const QUERY = /([?&])([^=&#]*=)?[^&#]*/g

/** A text, setting or line of the log with the secrets of its URLs replaced by `…`. */
export function withoutUrlSecrets(text: string): string {
  if (!text.includes('://')) return text
  return text.replaceAll(IN_TEXT, (url) => url.replaceAll(USER, '//…@').replaceAll(QUERY, '$1$2…'))
}
