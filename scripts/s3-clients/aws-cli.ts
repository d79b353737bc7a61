/** The command line of AWS: `aws s3` and `aws s3api`. */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { runChecks } from './client.ts'
import type { Client, Result, Target } from './client.ts'
import { awsEnvironment, md5Of, randomFile, runCommand, sameFiles, succeed, versionOf } from './command.ts'

const AWS = 'aws'
const BUCKET = 'aws-cli'
const MIB = 1 << 20

type Answer = Readonly<Record<string, unknown>>

export const awsCli: Client = {
  name: 'awscli',
  needs: 'nothing',
  version: () => versionOf(AWS, ['--version'], /aws-cli\/(\S+)/, 'pip install awscli'),
  run,
}

function run(target: Target): AsyncIterable<Result> {
  const { directory, endpoint } = target
  const env = awsEnvironment(target)
  writeFileSync(`${directory}/aws-config`, '[default]\ns3 =\n  addressing_style = path\n')
  const flags = ['--endpoint-url', endpoint]
  const aws = (...args: readonly string[]): string => succeed(AWS, [...flags, ...args], env)
  const json = (...args: readonly string[]): Answer => JSON.parse(aws(...args)) as Answer // of `--output json`, the default
  const refused = (code: string, ...args: readonly string[]): void => {
    const { status, stderr } = runCommand(AWS, [...flags, ...args], env)
    assert(status !== 0 && stderr.includes(code), `not refused with ${code}: ${stderr.trim()}`)
  }
  const of = (key: string): string[] => ['--bucket', BUCKET, '--key', key]

  return runChecks({
    'make a bucket, list buckets'() {
      aws('s3', 'mb', `s3://${BUCKET}`)
      assert.match(aws('s3', 'ls'), new RegExp(` ${BUCKET}$`, 'm'))
    },
    'cp up and down, content and metadata'() {
      const file = randomFile(`${directory}/small`, 100_000)
      aws('s3', 'cp', file, `s3://${BUCKET}/a b/ü.bin`, '--metadata', 'colour=green', '--content-type', 'text/x-test')
      const head = json('s3api', 'head-object', ...of('a b/ü.bin'))
      assert.deepEqual(
        [head['ContentLength'], head['ContentType'], head['Metadata'], head['ETag']],
        [100_000, 'text/x-test', { colour: 'green' }, `"${md5Of(file)}"`],
      )
      aws('s3', 'cp', `s3://${BUCKET}/a b/ü.bin`, `${directory}/small.back`)
      sameFiles(`${directory}/small.back`, file)
    },
    'cp of 20 MiB goes in parts'() {
      const file = randomFile(`${directory}/big`, 20 * MIB + 1)
      aws('s3', 'cp', file, `s3://${BUCKET}/big`, '--metadata', 'is=big')
      const head = json('s3api', 'head-object', ...of('big'))
      assert.deepEqual([head['ContentLength'], head['Metadata']], [20 * MIB + 1, { is: 'big' }])
      assert.match(String(head['ETag']), /-3"$/)
      aws('s3', 'cp', `s3://${BUCKET}/big`, `${directory}/big.back`)
      sameFiles(`${directory}/big.back`, file)
    },
    'cp from stdin of another command, to stdout'() {
      succeed('sh', ['-c', `printf piped | ${AWS} --endpoint-url ${endpoint} s3 cp - s3://${BUCKET}/piped`], env)
      assert.equal(aws('s3', 'cp', `s3://${BUCKET}/piped`, '-'), 'piped')
    },
    ls() {
      assert.match(aws('s3', 'ls', `s3://${BUCKET}`), /PRE a b\/\n.* 20971521 big\n.* 5 piped\n$/s)
      assert.match(
        aws('s3', 'ls', `s3://${BUCKET}`, '--recursive', '--summarize'),
        /Total Objects: 3\s+Total Size: 21071526/,
      )
    },
    'sync up, again, down, with --delete'() {
      const tree = `${directory}/tree`
      mkdirSync(`${tree}/deep/er`, { recursive: true })
      for (const name of ['one', 'two', 'deep/three', 'deep/er/four']) writeFileSync(`${tree}/${name}`, name)
      aws('s3', 'sync', tree, `s3://${BUCKET}/tree`)
      assert.equal(aws('s3', 'sync', tree, `s3://${BUCKET}/tree`), '', 'nothing changed, so nothing is sent')
      aws('s3', 'rm', `s3://${BUCKET}/tree/two`)
      aws('s3', 'sync', `s3://${BUCKET}/tree`, `${directory}/tree.back`)
      assert.deepEqual(readdirSync(`${directory}/tree.back`, { encoding: 'utf8', recursive: true }).sort(), [
        'deep',
        'deep/er',
        'deep/er/four',
        'deep/three',
        'one',
      ])
      assert.equal(readFileSync(`${directory}/tree.back/deep/er/four`, 'utf8'), 'deep/er/four')
      aws('s3', 'sync', `${tree}/deep`, `s3://${BUCKET}/tree`, '--delete')
      const left = json('s3api', 'list-objects-v2', '--bucket', BUCKET, '--prefix', 'tree/')['Contents']
      assert.deepEqual(
        (left as Answer[]).map(({ Key }) => Key),
        ['tree/er/four', 'tree/three'],
      )
    },
    'mv and cp within the store'() {
      aws('s3', 'cp', `s3://${BUCKET}/big`, `s3://${BUCKET}/big copy`)
      assert.equal(json('s3api', 'head-object', ...of('big copy'))['ContentLength'], 20 * MIB + 1)
      aws('s3', 'mv', `s3://${BUCKET}/piped`, `s3://${BUCKET}/moved`)
      refused('404', 's3api', 'head-object', ...of('piped'))
    },
    'put with a checksum, get a range'() {
      const file = randomFile(`${directory}/range`, 1000)
      for (const algorithm of ['CRC32', 'SHA1', 'SHA256']) {
        json('s3api', 'put-object', ...of('range'), '--body', file, '--checksum-algorithm', algorithm)
        const got = json('s3api', 'get-object', ...of('range'), '--checksum-mode', 'ENABLED', `${directory}/whole`)
        assert.equal(typeof got[`Checksum${algorithm}`], 'string', `${algorithm} is answered`)
      }
      const ranged = json('s3api', 'get-object', ...of('range'), '--range', 'bytes=10-19', `${directory}/ten`)
      assert.deepEqual([ranged['ContentRange'], ranged['ContentLength']], ['bytes 10-19/1000', 10])
      assert.deepEqual(readFileSync(`${directory}/ten`), readFileSync(file).subarray(10, 20))
    },
    presign() {
      const url = aws('s3', 'presign', `s3://${BUCKET}/moved`, '--expires-in', '60').trim()
      assert.equal(succeed('curl', ['-sf', url]), 'piped')
    },
    'tagging, CORS, policy'() {
      aws('s3api', 'put-object-tagging', ...of('moved'), '--tagging', 'TagSet=[{Key=a,Value=b}]')
      assert.deepEqual(json('s3api', 'get-object-tagging', ...of('moved'))['TagSet'], [{ Key: 'a', Value: 'b' }])
      const rules = { CORSRules: [{ AllowedMethods: ['GET'], AllowedOrigins: ['*'] }] }
      aws('s3api', 'put-bucket-cors', '--bucket', BUCKET, '--cors-configuration', JSON.stringify(rules))
      assert.deepEqual(json('s3api', 'get-bucket-cors', '--bucket', BUCKET), rules)
      const statement = {
        Effect: 'Deny',
        Principal: '*',
        Action: 's3:GetObject',
        Resource: `arn:aws:s3:::${BUCKET}/moved`,
      }
      aws(
        's3api',
        'put-bucket-policy',
        '--bucket',
        BUCKET,
        '--policy',
        JSON.stringify({ Version: '2012-10-17', Statement: [statement] }),
      )
      refused('AccessDenied', 's3api', 'get-object', ...of('moved'), `${directory}/denied`)
      aws('s3api', 'delete-bucket-policy', '--bucket', BUCKET)
      aws('s3api', 'get-object', ...of('moved'), `${directory}/allowed`)
    },
    'conditional write'() {
      refused('PreconditionFailed', 's3api', 'put-object', ...of('moved'), '--if-none-match', '*')
    },
    'what is outside the profile is refused'() {
      refused('NotImplemented', 's3api', 'get-bucket-versioning', '--bucket', BUCKET)
      refused('NotImplemented', 's3api', 'get-object-acl', ...of('moved'))
    },
    'rm --recursive, rb'() {
      refused('BucketNotEmpty', 's3', 'rb', `s3://${BUCKET}`)
      aws('s3', 'rm', `s3://${BUCKET}`, '--recursive')
      aws('s3', 'rb', `s3://${BUCKET}`)
    },
  })
}
