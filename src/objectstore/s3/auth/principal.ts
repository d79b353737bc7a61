/** The caller of a request, and what the request asks for. */

export const PERMISSIONS = ['read', 'write', 'list', 'delete', 'admin'] as const

export type Permission = (typeof PERMISSIONS)[number]

export interface Principal {
  readonly id: string
  readonly permissions: ReadonlySet<Permission>
}

export const ALL_PERMISSIONS: ReadonlySet<Permission> = new Set(PERMISSIONS)

/** Visible ASCII: it stands in headers, in XML and in policies. */
export const PRINCIPAL_ID = /^[\x21-\x7e]{1,128}$/

export const isPermission = (word: string): word is Permission => (PERMISSIONS as readonly string[]).includes(word)
