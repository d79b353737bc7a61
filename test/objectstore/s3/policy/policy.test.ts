/** Bucket policies: which are stored, and what they decide. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { POLICY_BODY_BYTES_MAX } from '../../../../src/objectstore/s3/document-limits.ts'
import { BUCKET_ACTIONS, OBJECT_ACTIONS } from '../../../../src/objectstore/s3/policy/actions.ts'
import { BucketPolicy } from '../../../../src/objectstore/s3/policy/bucket-policy.ts'
import type { PolicyVerdict } from '../../../../src/objectstore/s3/policy/bucket-policy.ts'
import type { PolicyRequest } from '../../../../src/objectstore/s3/policy/statement.ts'
import { atOnce } from '../../../../src/steps.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'
import { assertRefuses, bytes } from '../../../support/documents.ts'

type Statement = Readonly<Record<string, unknown>>

const policyOf = (...statements: unknown[]): BucketPolicy => parse({ Version: '2012-10-17', Statement: statements })
const parse = (policy: unknown): BucketPolicy => BucketPolicy.parse(bytes(JSON.stringify(policy)), 'photos')

const request = (about: Partial<PolicyRequest> = {}): PolicyRequest => ({
  principal: 'ann',
  action: 's3:GetObject',
  bucket: 'photos',
  key: 'cats/1.jpg',
  valuesOf: () => [],
  isOfUpload: false,
  ...about,
})

const READ: Statement = {
  Effect: 'Allow',
  Principal: '*',
  Action: 's3:GetObject',
  Resource: 'arn:aws:s3:::photos/*',
}

const verdict = (statement: Statement, about: Partial<PolicyRequest> = {}): PolicyVerdict =>
  atOnce(policyOf({ ...READ, ...statement }).evaluate(request(about)))

describe('patterns that a policy has many times', () => {
  it('are one: in actions, resources and values of conditions', () => {
    const many = <T>(value: T): T[] => Array.from({ length: 500 }, () => value)
    const stepsOf = (statement: Statement): number =>
      Array.from(policyOf({ ...READ, ...statement }).evaluate(request({ valuesOf: () => ['x'] }))).length
    for (const [once, often] of [
      [{ Action: 's3:PutObject' }, { Action: many('s3:PutObject') }],
      [{ Resource: 'photos/dogs/*' }, { Resource: many('photos/dogs/*') }],
      [{ Condition: { StringLike: { 's3:prefix': 'y' } } }, { Condition: { StringLike: { 's3:prefix': many('y') } } }],
    ] as const) {
      assert.equal(stepsOf(often), stepsOf(once))
    }
  })
})

describe('a policy document', () => {
  it('is JSON that begins with a brace, of at most 20 KiB', () => {
    const message = "Policies must be valid JSON and the first byte must be '{'"
    for (const text of ['', '[]', ' {}', 'x', '\ufeff{}']) {
      assertRefuses(() => BucketPolicy.parse(bytes(text), 'photos'), 'MalformedPolicy', { message })
    }
    assertRefuses(() => BucketPolicy.parse(bytes('{'), 'photos'), 'MalformedPolicy', {
      message: 'This policy contains invalid Json',
    })
    assertRefuses(() => BucketPolicy.parse(Buffer.from([0x7b, 0xff]), 'photos'), 'MalformedPolicy')
    const padded = (size: number) => {
      const json = JSON.stringify({ Statement: READ })
      return bytes(json.slice(0, -1) + ' '.repeat(size - json.length) + '}')
    }
    assert.equal(atOnce(BucketPolicy.parse(padded(POLICY_BODY_BYTES_MAX), 'photos').evaluate(request())), 'allow')
    assertRefuses(() => BucketPolicy.parse(padded(POLICY_BODY_BYTES_MAX + 1), 'photos'), 'EntityTooLarge', {
      fields: { ProposedSize: POLICY_BODY_BYTES_MAX + 1, MaxSizeAllowed: POLICY_BODY_BYTES_MAX },
    })
  })

  it('has statements, one or a list of them', () => {
    assertRefuses(() => parse({}), 'MalformedPolicy', { message: 'Missing required field Statement' })
    assertRefuses(() => parse({ Statement: [] }), 'MalformedPolicy', {
      message: 'Could not parse the policy: Statement is empty!',
    })
    for (const Statement of [READ, [READ], [READ, READ]]) {
      assert.equal(atOnce(parse({ Version: '2008-10-17', Id: 'mine', Statement }).evaluate(request())), 'allow')
    }
    for (const Statement of [null, 'x', 1, [null], [[]], ['x']]) {
      assertRefuses(() => parse({ Statement }), 'MalformedPolicy')
    }
  })

  it('has no version and no field that S3 does not know', () => {
    assertRefuses(() => parse({ Version: '2020-01-01', Statement: READ }), 'MalformedPolicy')
    assertRefuses(() => parse({ Statement: READ, Comment: '' }), 'MalformedPolicy', {
      message: 'Unknown field Comment',
    })
    assertRefuses(() => policyOf({ ...READ, Actions: [] }), 'MalformedPolicy', { message: 'Unknown field Actions' })
    assertRefuses(() => BucketPolicy.parse(bytes('{"__proto__":{},"Statement":[]}'), 'photos'), 'MalformedPolicy')
  })

  it('says of each statement whether it allows, whom, what and where', () => {
    for (const field of ['Effect', 'Principal', 'Action', 'Resource']) {
      const message = `Missing required field ${field}`
      assertRefuses(() => policyOf({ ...READ, [field]: undefined }), 'MalformedPolicy', { message })
    }
    for (const field of ['Principal', 'Action', 'Resource']) {
      assertRefuses(() => policyOf({ ...READ, Effect: 'Deny', [`Not${field}`]: READ[field] }), 'MalformedPolicy')
    }
    assertRefuses(() => policyOf({ ...READ, Effect: 'allow' }), 'MalformedPolicy', { message: 'Invalid effect' })
    assertRefuses(() => policyOf({ ...READ, Sid: 1 }), 'MalformedPolicy')
  })

  it('never allows everybody but somebody', () => {
    const { Principal: _, ...rest } = READ
    assertRefuses(() => policyOf({ ...rest, NotPrincipal: { AWS: 'ann' } }), 'MalformedPolicy', {
      message: 'Allow with NotPrincipal is not allowed.',
    })
  })

  it('names principals as text, as canonical user or by an ARN of IAM', () => {
    const bad = [
      'ann',
      [],
      {},
      { AWS: [] },
      { AWS: 1 },
      { AWS: '' },
      { Service: 's3.amazonaws.com' },
      { AWS: 'arn:aws:s3:::b' },
    ]
    for (const Principal of [...bad, null, { AWS: 'arn:aws:iam::1:group/x' }, { AWS: 'arn:aws:iam:::root' }]) {
      assertRefuses(() => policyOf({ ...READ, Principal }), 'MalformedPolicy', {
        message: 'Invalid principal in policy',
      })
    }
  })

  it('names actions of S3', () => {
    for (const Action of ['GetObject', 's3:', 'ec2:RunInstances', 's3:Get Object', '']) {
      assertRefuses(() => policyOf({ ...READ, Action }), 'MalformedPolicy', { message: 'Policy has invalid action' })
    }
    for (const Action of [[], [1], null, {}]) assertRefuses(() => policyOf({ ...READ, Action }), 'MalformedPolicy')
    assert.equal(verdict({ Action: ['s3:GetObject', 's3:GetObjectAcl'] }), 'allow')
  })

  it('is stored with actions that S3 has only, and holds with others', () => {
    const storing = (about: Statement) => () => atOnce(policyOf({ ...READ, ...about }).checkStorable())
    const message = 'Policy has invalid action'
    for (const Action of ['s3:GetObjects', 's3:Gett*', ['s3:GetObject', 'obj:Nothing'], 's3:*Objekt?']) {
      assertRefuses(storing({ Action }), 'MalformedPolicy', { message })
      assertRefuses(storing({ Action: undefined, NotAction: Action }), 'MalformedPolicy', { message })
    }
    for (const Action of ['*', 's3:*', 'obj:getobject', 's3:GetObjectVersion', 's3:?utObjectAcl', 's3:*Lifecycle*']) {
      storing({ Action })()
    }
    for (const Action of [...BUCKET_ACTIONS, ...OBJECT_ACTIONS]) storing({ Action, Resource: 'photos*' })()
    assert.equal(verdict({ Action: ['s3:GetObject', 's3:Nothing'] }), 'allow')
  })

  it('is stored with statements of different ids only, and holds with others', () => {
    const policy = policyOf({ ...READ, Sid: 'a' }, { ...READ, Sid: 'A' }, { ...READ, Sid: 'a' })
    assertRefuses(() => atOnce(policy.checkStorable()), 'MalformedPolicy', {
      message: 'Statement IDs (SID) in a single policy must be unique.',
    })
    assert.equal(atOnce(policy.evaluate(request())), 'allow')
    atOnce(policyOf({ ...READ, Sid: 'a' }, { ...READ, Sid: 'A' }, READ, READ, { ...READ, Sid: '' }).checkStorable())
  })

  it('names resources within its bucket', () => {
    for (const Resource of [
      'arn:aws:s3:::other/*',
      'other/*',
      '/*',
      'arn:aws:s3:::',
      'arn:aws:iam::1:user/x',
      'photo/*',
    ]) {
      assertRefuses(() => policyOf({ ...READ, Resource }), 'MalformedPolicy', {
        message: 'Policy has invalid resource',
      })
    }
  })

  it('reports actions that do not fit the resources', () => {
    const message = 'Action does not apply to any resource(s) in statement'
    assertRefuses(() => policyOf({ ...READ, Resource: 'arn:aws:s3:::photos' }), 'MalformedPolicy', { message })
    assertRefuses(() => policyOf({ ...READ, Action: 's3:ListBucket' }), 'MalformedPolicy', { message })
    for (const Action of ['*', 's3:*', 's3:Get*', 's3:List*']) {
      policyOf({ ...READ, Action })
      policyOf({ ...READ, Action, Resource: 'photos' })
    }
    policyOf({ ...READ, Action: ['s3:GetObject', 's3:ListBucket'], Resource: ['photos', 'photos/*'] })
    policyOf({ ...READ, Action: ['s3:GetObject', 's3:ListBucket'], Resource: 'photos*' })
  })

  it('has no name twice, as one of both would count for nothing', () => {
    const twice = JSON.stringify({ Statement: READ }).replace('"Effect"', '"Effect":"Deny","Effect"')
    assertRefuses(() => BucketPolicy.parse(bytes(twice), 'photos'), 'MalformedPolicy', {
      message: 'This policy contains invalid Json',
    })
    const escaped = '"a\\":\\"b":' // quotes and colons inside of a string are no names
    policyOf({ ...READ, Sid: escaped, Condition: { StringLike: { 'aws:Referer': [escaped, '"x":', 'x'] } } })
  })

  it('has conditions with keys, and keys with values', () => {
    policyOf({ ...READ, Condition: {} })
    for (const Condition of [
      { StringLike: {} },
      { StringLike: { 's3:prefix': [] } },
      { StringLike: 'x' },
      [],
      'x',
      { StringLike: { 's3:prefix': null } },
    ]) {
      assertRefuses(() => policyOf({ ...READ, Condition }), 'MalformedPolicy')
    }
  })

  it('has no variables, which would not be filled in', () => {
    const home = 'arn:aws:s3:::photos/${aws:username}/*'
    assertRefuses(() => policyOf({ ...READ, Resource: home }), 'NotImplemented')
    const Condition = { StringLike: { 's3:prefix': '${aws:username}/*' } }
    assertRefuses(() => policyOf({ ...READ, Condition }), 'NotImplemented')
  })

  it('ends with a policy or a refusal, whatever comes', () => {
    const words = fc.constantFrom(
      'Statement',
      'Effect',
      'Principal',
      'Action',
      'Resource',
      'Condition',
      'Allow',
      '*',
      'AWS',
      's3:*',
    )
    const json = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        words,
        fc.constantFrom(null, 1, true),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(words, tie('value'), { maxKeys: 5 }),
      ),
    })).value
    const parsed = (document: Uint8Array): void => {
      try {
        atOnce(BucketPolicy.parse(document, 'photos').evaluate(request()))
      } catch (error) {
        assert.ok(error instanceof S3Error, String(error))
      }
    }
    fc.assert(fc.property(json, (Statement) => parsed(bytes(JSON.stringify({ Statement })))))
    fc.assert(fc.property(fc.uint8Array(), (document) => parsed(document)))
    const whole = JSON.stringify({ Statement: READ })
    for (let end = 0; end < whole.length; end++) {
      assertRefuses(() => BucketPolicy.parse(bytes(whole.slice(0, end)), 'photos'), 'MalformedPolicy')
    }
    const deep = `{"Statement":${'['.repeat(10_000)}${']'.repeat(10_000)}}`
    assertRefuses(() => BucketPolicy.parse(bytes(deep), 'photos'), 'MalformedPolicy')
  })
})

describe('a statement', () => {
  it('matches principals by name, everybody by a star', () => {
    const allows = (principals: unknown, principal: string | null) =>
      verdict({ Principal: principals }, { principal }) === 'allow'
    for (const everybody of ['*', { AWS: '*' }, { AWS: ['bob', '*'] }]) {
      assert.ok(allows(everybody, 'ann') && allows(everybody, null))
    }
    for (const ann of [
      { AWS: 'ann' },
      { AWS: ['bob', 'ann'] },
      { CanonicalUser: 'ann' },
      { AWS: 'arn:aws:iam::111122223333:user/ann' },
      { AWS: 'arn:aws:iam::111122223333:user/dev/ann' },
      { AWS: 'arn:aws:iam::111122223333:role/ann' },
      { AWS: 'arn:aws:iam::ann:root' },
    ]) {
      assert.ok(allows(ann, 'ann'), JSON.stringify(ann))
      assert.ok(!allows(ann, 'annie') && !allows(ann, null))
    }
    const deny = { ...READ, Effect: 'Deny', Principal: undefined, NotPrincipal: { AWS: 'ann' } }
    assert.equal(atOnce(policyOf(deny).evaluate(request())), 'none')
    assert.equal(atOnce(policyOf(deny).evaluate(request({ principal: 'bob' }))), 'deny')
    assert.equal(atOnce(policyOf(deny).evaluate(request({ principal: null }))), 'deny')
  })

  it('matches actions in any case, with wildcards, under either prefix', () => {
    for (const Action of [
      's3:GetObject',
      'S3:getobject',
      's3:Get*',
      's3:*',
      '*',
      's3:?etObject',
      'obj:GetObject',
      ['s3:PutObject', 's3:GetObject'],
    ]) {
      assert.equal(verdict({ Action }), 'allow')
    }
    assert.equal(verdict({ Action: 's3:GetObjectTagging' }), 'none')
    assert.equal(verdict({ Action: 's3:PutObject' }), 'none')
    assert.equal(verdict({ Action: undefined, NotAction: 's3:Put*' }), 'allow')
    assert.equal(verdict({ Action: undefined, NotAction: ['s3:Put*', 's3:Get*'] }), 'none')
  })

  it('matches keys with wildcards, the bucket by its name', () => {
    const prefixes = ['arn:aws:s3:::', 'arn:aws-cn:s3:::', 'arn:aws:obj:::', '']
    for (const prefix of prefixes) {
      for (const resource of [
        'photos/*',
        'photos/cats/*',
        'photos/cats/1.jpg',
        'photos/cats/?.jpg',
        'photos*',
        '*',
        '*/*',
      ]) {
        assert.equal(verdict({ Resource: prefix + resource }), 'allow', prefix + resource)
      }
      for (const resource of ['photos/dogs/*', 'photos/cats', 'photos/Cats/*']) {
        assert.equal(verdict({ Resource: prefix + resource }), 'none', prefix + resource)
      }
    }
    assert.equal(verdict({ Resource: undefined, NotResource: 'photos/cats/*' }), 'none')
    assert.equal(verdict({ Resource: undefined, NotResource: 'photos/dogs/*' }), 'allow')
    const list: Statement = { Action: 's3:ListBucket', Resource: 'arn:aws:s3:::photos' }
    assert.equal(verdict(list, { action: 's3:ListBucket', key: null }), 'allow')
    assert.equal(
      verdict({ ...list, Action: '*', Resource: 'photos/*' }, { action: 's3:ListBucket', key: null }),
      'none',
    )
  })

  it('holds only when all its conditions do', () => {
    const Condition = {
      StringLike: { 'aws:Referer': ['http://a/*', 'http://b/*'], 'aws:UserAgent': '*' },
      Bool: { 'aws:SecureTransport': true },
    }
    const asking = (values: Readonly<Record<string, readonly string[]>>) =>
      verdict({ Condition }, { valuesOf: ({ name }) => values[name] ?? [] })
    const all = { 'aws:referer': ['http://b/x'], 'aws:useragent': ['curl'], 'aws:securetransport': ['true'] }
    assert.equal(asking(all), 'allow')
    assert.equal(asking({ ...all, 'aws:referer': ['http://c/'] }), 'none')
    assert.equal(asking({ ...all, 'aws:securetransport': ['false'] }), 'none')
    assert.equal(asking({ ...all, 'aws:useragent': [] }), 'none')
  })

  it('may allow what it does not rule out before the body is read', () => {
    const may = (statement: Statement, about: Partial<PolicyRequest> = {}) =>
      atOnce(policyOf({ ...READ, ...statement }).mayAllow(request({ key: null, ...about })))
    assert.ok(may({}))
    assert.ok(may({ Resource: 'photos/cats/*' }))
    assert.ok(may({ Resource: undefined, NotResource: 'photos/cats/*' }))
    assert.ok(may({ Condition: { StringEquals: { 's3:RequestObjectTag/a': 'b' } } }))
    assert.ok(may({ Condition: { StringEquals: { 'aws:username': 'ann' } } }, { valuesOf: () => ['ann'] }))
    assert.ok(may({ Action: 's3:ListBucket', Resource: 'photos' }, { action: 's3:ListBucket' }))

    assert.ok(!may({ Effect: 'Deny' }))
    assert.ok(!may({ Principal: { AWS: 'bob' } }))
    assert.ok(!may({}, { action: 's3:PutObject' }))
    assert.ok(!may({ Action: '*', Resource: 'photos' }))
    assert.ok(!may({ Resource: 'photos/dogs/*' }, { key: 'cats/1.jpg' }))
    for (const NotResource of ['*', 'photos*', 'photos/*']) assert.ok(!may({ Resource: undefined, NotResource }))
    assert.ok(!may({ Action: '*', Resource: 'photos/*' }, { action: 's3:ListBucket' }))
    assert.ok(!may({ Condition: { StringEquals: { 'aws:username': 'ann' } } }, { valuesOf: () => ['bob'] }))
  })

  it('tells which keys its conditions ask for', () => {
    const Condition = { StringEquals: { 's3:ExistingObjectTag/Team': 'a', 'S3:Prefix': 'b' } }
    assert.deepEqual(policyOf(READ, { ...READ, Condition }).conditionKeys, [
      { name: 's3:existingobjecttag/', tag: 'Team' },
      { name: 's3:prefix', tag: '' },
    ])
  })
})

describe('a policy', () => {
  const oneOrMore = (...values: string[]) => fc.uniqueArray(fc.constantFrom(...values), { minLength: 1, maxLength: 3 })
  const statement = fc.record(
    {
      Effect: fc.constantFrom('Allow', 'Deny'),
      Principal: fc.oneof(fc.constant('*'), fc.record({ AWS: oneOrMore('ann', 'bob') })),
      Action: oneOrMore('s3:*', 's3:Get*', 's3:PutObject', '*', 's3:*Object*'),
      Resource: oneOrMore('photos*', 'photos/a*', 'photos/*b', 'arn:aws:s3:::photos/*'),
    },
    { noNullPrototype: true },
  )
  const requests = fc
    .tuple(
      fc.constantFrom('ann', 'bob', null),
      fc.constantFrom(...BUCKET_ACTIONS, ...OBJECT_ACTIONS),
      fc.option(fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 3 })),
    )
    .map(([principal, action, key]) => request({ principal, action, key }))
  const statements = fc.array(statement, { minLength: 1, maxLength: 5 })

  it('denies when one statement does, else allows when one does, in any order', () => {
    fc.assert(
      fc.property(statements, requests, (statements, asked) => {
        const verdicts = new Set(statements.map((each) => atOnce(policyOf(each).evaluate(asked))))
        const expected = verdicts.has('deny') ? 'deny' : verdicts.has('allow') ? 'allow' : 'none'
        assert.equal(atOnce(policyOf(...statements).evaluate(asked)), expected)
        assert.equal(atOnce(policyOf(...statements.toReversed()).evaluate(asked)), expected)
      }),
    )
  })

  it('may allow whatever it allows', () => {
    fc.assert(
      fc.property(statements, requests, (statements, asked) => {
        const policy = policyOf(...statements)
        assert.ok(atOnce(policy.mayAllow(asked)) || atOnce(policy.evaluate(asked)) !== 'allow')
      }),
    )
  })

  it('is not changed by a statement that does not match', () => {
    fc.assert(
      fc.property(statements, statement, requests, fc.nat(), (statements, other, asked, at) => {
        fc.pre(atOnce(policyOf(other).evaluate(asked)) === 'none')
        const more = statements.toSpliced(at % (statements.length + 1), 0, other)
        assert.equal(atOnce(policyOf(...more).evaluate(asked)), atOnce(policyOf(...statements).evaluate(asked)))
      }),
    )
  })

  it('never allows more with one more denial', () => {
    fc.assert(
      fc.property(statements, statement, requests, (statements, other, asked) => {
        const before = atOnce(policyOf(...statements).evaluate(asked))
        const after = atOnce(policyOf(...statements, { ...other, Effect: 'Deny' }).evaluate(asked))
        assert.ok(after === before || after === 'deny')
      }),
    )
  })
})
