/**
 * Names the caller of a request. In `local` mode the caller is the principal that the request names; signatures are neither needed nor checked, as
 * there is no key to check them with. In `sigv4` mode the caller is the owner of the key that signed the request, or anonymous.
 */
import { refuse } from '../../refusals.ts'
import type { SignedRequest } from './canonical-request.ts'
import { verifyFormSignature } from './form-signature.ts'
import type { FormFields } from './form-signature.ts'
import { verifyHeaderSignature } from './header-signature.ts'
import { ALL_PERMISSIONS, isPermission, PRINCIPAL_ID } from './principal.ts'
import type { Permission, Principal } from './principal.ts'
import { isPresigned, verifyQuerySignature } from './query-signature.ts'
import { isPresignedByV2, verifyQuerySignatureV2 } from './query-signature-v2.ts'
import { eitherHeader } from './request-identity.ts'
import type { Caller } from './request-identity.ts'
import { VerifiedUrls } from './verified-urls.ts'
import type { SigningRules } from './verify.ts'

export interface Authenticator {
  /** @throws S3Error */
  authenticate(request: SignedRequest, nowMs: number): Caller
  /**
   * Authenticates a form upload, once the fields before the file are read.
   *
   * @param caller  what `authenticate` returned for the request
   * @returns null: anonymous
   * @throws S3Error
   */
  authenticateForm(field: FormFields, caller: Caller): Principal | null
}

export function signedAuthenticator(rules: SigningRules): Authenticator {
  const verified = new VerifiedUrls()
  return {
    authenticate(request, nowMs) {
      const authorization = request.headers.get('authorization') ?? ''
      const presigned = isPresigned(request.query)
      const presignedByV2 = isPresignedByV2(request.query)
      if (Number(authorization !== '') + Number(presigned) + Number(presignedByV2) > 1) {
        throw refuse(
          'InvalidArgument',
          'Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter or the ' +
            'Authorization header should be specified',
          { fields: { ArgumentName: 'Authorization' } },
        )
      }
      if (authorization !== '') return verifyHeaderSignature(request, authorization, rules, nowMs)
      if (presigned) return verifyQuerySignature(request, rules, verified, nowMs)
      if (presignedByV2) return verifyQuerySignatureV2(request, rules, nowMs)
      return { principal: null, contentSha256: contentSha256Of(request), chunkSigning: null }
    },
    authenticateForm: (field, caller) => verifyFormSignature(field, rules) ?? caller.principal,
  }
}

export const localAuthenticator: Authenticator = {
  authenticate: (request) => ({
    principal: localPrincipal(request),
    contentSha256: contentSha256Of(request),
    chunkSigning: null,
  }),
  authenticateForm: (_, caller) => caller.principal,
}

const LOCAL: Principal = Object.freeze({ id: 'local', permissions: ALL_PERMISSIONS })

const contentSha256Of = ({ headers }: SignedRequest): string | null => eitherHeader(headers, 'content-sha256') ?? null

function localPrincipal({ headers }: SignedRequest): Principal {
  const id = eitherHeader(headers, 'principal') || LOCAL.id
  if (!PRINCIPAL_ID.test(id)) {
    throw invalidHeader('x-obj-principal', 'A principal is 1 to 128 visible ASCII characters')
  }
  const words = eitherHeader(headers, 'permissions')
  if (words === undefined) return id === LOCAL.id ? LOCAL : { id, permissions: ALL_PERMISSIONS }
  return { id, permissions: parsePermissions(words) }
}

/** An empty list gives no permissions. */
function parsePermissions(text: string): ReadonlySet<Permission> {
  const permissions = new Set<Permission>()
  for (const part of text.split(',')) {
    const word = part.trim()
    if (word === '') continue
    if (!isPermission(word)) {
      throw invalidHeader(
        'x-obj-permissions',
        'Permissions are read, write, list, delete and admin, separated by commas',
      )
    }
    permissions.add(word)
  }
  return permissions
}

const invalidHeader = (name: string, message: string): Error =>
  refuse('InvalidArgument', message, { fields: { ArgumentName: name } })
