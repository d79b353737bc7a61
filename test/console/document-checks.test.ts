/** Issue "The console", 4: the page checks a document before it is sent, and finds what the object store would find. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { corsRulesProblem, policyProblem } from '../../src/console/page/objects/document-checks.ts'
import type { CorsRule } from '../../src/console/page/objects/document-checks.ts'
import { checkStorableRules, readCorsConfiguration } from '../../src/objectstore/s3/buckets/cors-document.ts'
import { BucketPolicy } from '../../src/objectstore/s3/policy/bucket-policy.ts'

/** True when the object store takes the document. */
function takes(store: () => void): boolean {
  try {
    store()
    return true
  } catch {
    return false
  }
}

describe('a policy in the console', () => {
  const BUCKET = 'photos-2026.eu'
  const statement = { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: `arn:aws:s3:::${BUCKET}/*` }
  const policyOf = (...statements: unknown[]): object => ({ Version: '2012-10-17', Statement: statements })
  const isTaken = (text: string): boolean =>
    takes(() => {
      const checking = BucketPolicy.parse(Buffer.from(text), BUCKET).checkStorable()
      while (checking.next().done !== true);
    })

  it('is found good when the object store takes it', () => {
    for (const policy of [
      policyOf(statement),
      { Statement: statement },
      policyOf({ ...statement, Resource: `${BUCKET}/a/b` }, { ...statement, Effect: 'Deny', Sid: 'x' }),
      policyOf({
        ...statement,
        Action: ['s3:ListBucket', 's3:*'],
        Resource: [`arn:aws:s3:::${BUCKET}`, `${BUCKET}/*`],
      }),
      policyOf({ ...statement, Resource: 'arn:aws:s3:::photos-????.*/x' }),
      policyOf({ ...statement, Principal: undefined, NotPrincipal: { AWS: 'alice' }, Effect: 'Deny' }),
      policyOf({ ...statement, Condition: { Bool: { 'aws:SecureTransport': 'true' } } }),
    ]) {
      const text = JSON.stringify(policy)
      assert.equal(policyProblem(text, BUCKET), null, text)
      assert.ok(isTaken(text), text)
    }
  })

  it('is told to be wrong, and where, when the object store refuses it', () => {
    const wrong: readonly (readonly [policy: unknown, problem: RegExp])[] = [
      [[], /^A policy is an object/],
      [{ ...policyOf(statement), Statements: [] }, /^A policy has no Statements/],
      [{ ...policyOf(statement), Version: '2020-01-01' }, /^Version must be/],
      [policyOf(), /no Statement/],
      [policyOf(statement, 'x'), /^Statement 2: it must be an object/],
      [policyOf({ ...statement, Efect: 'Allow' }), /^Statement 1: there is no Efect/],
      [policyOf({ ...statement, Effect: 'allow' }), /^Statement 1: Effect must be Allow or Deny/],
      [policyOf({ ...statement, Principal: undefined }), /^Statement 1: it has no Principal/],
      [policyOf({ ...statement, NotAction: 's3:*' }), /it has both Action and NotAction/],
      [policyOf({ ...statement, Principal: undefined, NotPrincipal: '*' }), /NotPrincipal goes with Deny alone/],
      [policyOf({ ...statement, Principal: 'alice' }), /^Statement 1: Principal must be "\*", or an object/],
      [policyOf({ ...statement, Principal: { Service: 'x' } }), /^Statement 1: Principal must be/],
      [policyOf({ ...statement, Action: ['s3:GetObject', 'GetObject'] }), /"GetObject" is no action/],
      [policyOf({ ...statement, Resource: 'arn:aws:s3:::another/*' }), /write arn:aws:s3:::photos-2026\.eu for/],
      [policyOf({ ...statement, Resource: 'photos-2026Xeu/*' }), /is not in the bucket/],
      [policyOf({ ...statement, Condition: { Bool: 'true' } }), /Condition must be an object/],
      [policyOf({ ...statement, Sid: 'a' }, { ...statement, Sid: 'a' }), /^Statement 2: another one has the Sid "a"/],
    ]
    for (const [policy, problem] of wrong) {
      const text = JSON.stringify(policy)
      assert.match(policyProblem(text, BUCKET) ?? 'nothing', problem, text)
      assert.ok(!isTaken(text), text)
    }
    assert.match(policyProblem('{"a":}', BUCKET) ?? 'nothing', /^It is no JSON/)
  })
})

describe('rules of CORS in the console', () => {
  const isTaken = (rules: readonly CorsRule[]): boolean => {
    const shown = rules.map((rule) => rule.map(([name, text]) => `<${name}>${text}</${name}>`).join(''))
    const document = `<CORSConfiguration>${shown.map((rule) => `<CORSRule>${rule}</CORSRule>`).join('')}</CORSConfiguration>`
    return takes(() => checkStorableRules(readCorsConfiguration(Buffer.from(document))))
  }
  const least: CorsRule = [
    ['AllowedOrigin', 'https://*.example.com'],
    ['AllowedMethod', 'GET'],
  ]

  it('are found good when the object store takes them', () => {
    const whole: CorsRule = [
      ...least,
      ['ID', 'a'.repeat(255)],
      ['AllowedHeader', 'x-amz-*'],
      ['ExposeHeader', 'etag'],
      ['MaxAgeSeconds', ' 3600 '],
    ]
    for (const rules of [[least], [least, whole], Array.from({ length: 100 }, () => least)]) {
      assert.equal(corsRulesProblem(rules), null)
      assert.ok(isTaken(rules))
    }
  })

  it('are told to be wrong, and where, when the object store refuses them', () => {
    const wrong: readonly (readonly [rules: readonly CorsRule[], problem: RegExp])[] = [
      [[], /^It has no CORSRule/],
      [Array.from({ length: 101 }, () => least), /more than 100 rules/],
      [[least, least.slice(1)], /^Rule 2 has no AllowedOrigin/],
      [[least.slice(0, 1)], /^Rule 1 has no AllowedMethod/],
      ...(
        [
          ['AllowedMethod', 'PATCH', /which must be one of GET, PUT, POST, DELETE, HEAD/],
          ['AllowedOrigin', 'https://*.*', /which may have one \* at most/],
          ['AllowedHeader', '*-*', /which may have one \* at most/],
          ['AllowedHeader', 'x y', /which is no name of a header/],
          ['ExposeHeader', 'x-*', /which may have no \*/],
          ['MaxAgeSeconds', '1h', /which must be a number of seconds/],
          ['ID', 'a'.repeat(256), /which must have at most 255 characters/],
          ['AllowedOrigins', '*', /^Rule 1 may have no AllowedOrigins/],
        ] as const
      ).map(([name, text, problem]) => [[[...least, [name, text]]], problem] as const),
      [[[...least, ['ID', 'a'], ['ID', 'b']]], /has more than one ID/],
    ]
    for (const [rules, problem] of wrong) {
      assert.match(corsRulesProblem(rules) ?? 'nothing', problem)
      assert.ok(!isTaken(rules), String(problem))
    }
  })
})
