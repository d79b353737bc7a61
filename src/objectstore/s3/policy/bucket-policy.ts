/**
 * A bucket policy: what principals may, and may not, do with a bucket and its objects, and when.
 *
 * P1  a statement that denies wins over every one that allows
 * P2  a statement that does not match changes nothing
 * P3  a policy is evaluated in slices (slices.ts): that may take milliseconds, and a request may need it a thousand times
 */
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'
import { parseJson } from '../json.ts'
import { POLICY_BODY_BYTES_MAX } from '../document-limits.ts'
import type { ConditionKey } from './conditions.ts'
import { isS3Action } from './s3-actions.ts'
import type { Sliced } from '../slices.ts'
import { parseStatement } from './statement.ts'
import type { PolicyRequest, Statement } from './statement.ts'

/** `none`: the policy says nothing about the request, so only the owner may. */
export type PolicyVerdict = 'allow' | 'deny' | 'none'

const FIELDS: ReadonlySet<string> = new Set(['Version', 'Id', 'Statement'])
const VERSIONS: readonly unknown[] = ['2012-10-17', '2008-10-17']
const OPENING_BRACE = 0x7b

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export class BucketPolicy {
  readonly #statements: readonly Statement[]
  /** Keys that the conditions ask for: other values of a request need not be looked up. */
  readonly conditionKeys: readonly ConditionKey[]

  private constructor(statements: readonly Statement[]) {
    this.#statements = statements
    this.conditionKeys = statements.flatMap(({ conditions }) => conditions.map(({ key }) => key))
  }

  /** @throws S3Error EntityTooLarge, MalformedPolicy, NotImplemented for policy variables */
  static parse(document: Uint8Array, bucket: string): BucketPolicy {
    if (document.byteLength > POLICY_BODY_BYTES_MAX) {
      throw refuse('EntityTooLarge', undefined, {
        fields: { ProposedSize: document.byteLength, MaxSizeAllowed: POLICY_BODY_BYTES_MAX },
      })
    }
    if (document[0] !== OPENING_BRACE) {
      throw malformed("Policies must be valid JSON and the first byte must be '{'")
    }
    const policy = parsePolicy(document)
    for (const field in policy) if (!FIELDS.has(field)) throw malformed(`Unknown field ${field}`)
    const { Version = VERSIONS[1], Statement: statements } = policy
    if (!VERSIONS.includes(Version)) throw malformed('The policy must contain a valid version string')
    if (statements === undefined) throw malformed('Missing required field Statement')
    const list: readonly unknown[] = Array.isArray(statements) ? statements : [statements]
    if (list.length === 0) throw malformed('Could not parse the policy: Statement is empty!')
    return new BucketPolicy(list.map((statement) => parseStatement(statement, bucket)))
  }

  /**
   * Refuses what else S3 refuses when a policy is stored. `parse` does not, as a policy that is stored already stays valid. P3
   *
   * @throws S3Error MalformedPolicy
   */
  *checkStorable(): Sliced<void> {
    const ids = this.#statements.flatMap(({ sid }) => (sid === '' ? [] : [sid]))
    if (new Set(ids).size < ids.length) throw malformed('Statement IDs (SID) in a single policy must be unique.')
    for (const { actions } of this.#statements) {
      for (const action of actions) if (!(yield* isS3Action(action))) throw malformed('Policy has invalid action')
    }
  }

  /** Whether the policy could allow a request of which not everything is known yet. P3 */
  *mayAllow(request: PolicyRequest): Sliced<boolean> {
    for (const statement of this.#statements) {
      if (statement.effect === 'Allow' && (yield* statement.mayMatch(request))) return true
    }
    return false
  }

  /** P1, P2, P3 */
  *evaluate(request: PolicyRequest): Sliced<PolicyVerdict> {
    let verdict: PolicyVerdict = 'none'
    for (const statement of this.#statements) {
      if (verdict === 'allow' && statement.effect === 'Allow') continue
      if (!(yield* statement.matches(request))) continue
      if (statement.effect === 'Deny') return 'deny'
      verdict = 'allow'
    }
    return verdict
  }
}

/** Parses a document that begins with a brace: an object. */
function parsePolicy(document: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    return parseJson(decoder.decode(document)) as Readonly<Record<string, unknown>>
  } catch (error) {
    throw refuse('MalformedPolicy', 'This policy contains invalid Json', { cause: error })
  }
}

const malformed = (message: string): S3Error => refuse('MalformedPolicy', message)
