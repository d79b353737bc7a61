import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { problemsOf } from '../../src/cli/settings-report.ts'
import { allSettings, flagOf } from '../../src/config/all-settings.ts'
import { belowEnvironment, parseConfigFile, readConfigFile } from '../../src/config/config-file.ts'
import { SettingProblems } from '../../src/config/settings.ts'
import type { Environment } from '../../src/config/settings.ts'
import { temporaryDirectory } from '../support/directories.ts'

/** The settings of a text, and its problems. */
function parsed(text: string): { readonly set: Environment; readonly problems: readonly string[] } {
  const problems = new SettingProblems()
  const set = parseConfigFile(text, problems)
  return { set, problems: toldBy(problems) }
}

const toldBy = (problems: SettingProblems): readonly string[] => problemsOf(() => problems.throwIfAny())

describe('a file of settings', () => {
  it('has a setting on a line, comments and empty lines', () => {
    const text =
      '# of the shop\r\n\n MQ_NODE_ID = eu-1 \nexport OBJSTORE_REGION="eu west"\nLOGSTORE_DATA_DIR=\'/a=b#c\'\nMQ_DATA_DIR='
    assert.deepEqual(parsed(text), {
      set: { MQ_NODE_ID: 'eu-1', OBJSTORE_REGION: 'eu west', LOGSTORE_DATA_DIR: '/a=b#c', MQ_DATA_DIR: '' },
      problems: [],
    })
  })

  it('is refused with the line of each mistake, and repeats nothing of it but what is like a name', () => {
    const { set, problems } = parsed(
      'MQ_NODE_ID=a\nsecret words\nMQ_NODEID=secret\nMQ_NODE_ID=secret\nTRILOG_CONFIG=/x\nc2VjcmV0IQ==',
    )
    assert.deepEqual(set, { MQ_NODE_ID: 'a' })
    assert.deepEqual(problems, [
      'TRILOG_CONFIG names a file with a mistake in line 2: a line is NAME=value, empty, or begins with #',
      'TRILOG_CONFIG names a file with a mistake in line 3: there is no setting MQ_NODEID',
      'TRILOG_CONFIG names a file with a mistake in line 4: MQ_NODE_ID is set twice',
      'TRILOG_CONFIG names a file with a mistake in line 5: a file of settings must not name another one',
      'TRILOG_CONFIG names a file with a mistake in line 6: there is no setting of this name',
    ])
  })

  it('gives every setting back that was written into it', () => {
    const names = Object.keys(allSettings).filter((name) => name !== 'TRILOG_CONFIG')
    const value = fc
      .string({ unit: 'grapheme' })
      .filter((text) => !/[\r\n]/.test(text) && !/^(['"]).*\1$/.test(text.trim()))
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...names), value), (set) => {
        const text = Object.entries(set).map(([name, each]) => `${name}="${each}"`)
        assert.deepEqual(parsed(text.join('\n')), { set: { ...set }, problems: [] })
      }),
    )
  })

  it('stands below the environment, whose empty variables are no values', () => {
    const file = { MQ_NODE_ID: 'file', MQ_DATA_DIR: '/file', OBJSTORE_REGION: 'file' }
    const env = { MQ_NODE_ID: 'env', MQ_DATA_DIR: '', PATH: '/bin' }
    assert.deepEqual(belowEnvironment(file, env), {
      MQ_NODE_ID: 'env',
      MQ_DATA_DIR: '/file',
      OBJSTORE_REGION: 'file',
      PATH: '/bin',
    })
  })

  it('is the one that TRILOG_CONFIG names, which must be there', () => {
    const path = `${temporaryDirectory()}/settings`
    const problems = new SettingProblems()
    assert.deepEqual(readConfigFile({}, problems), {})
    assert.deepEqual(readConfigFile({ TRILOG_CONFIG: path }, problems), {})
    assert.deepEqual(toldBy(problems), [`TRILOG_CONFIG names a file that does not exist: ${path}`])
    writeFileSync(path, 'MQ_NODE_ID=eu-1\n')
    assert.deepEqual(readConfigFile({ TRILOG_CONFIG: path }, new SettingProblems()), { MQ_NODE_ID: 'eu-1' })
    writeFileSync(path, 'MQ_NODEID=eu-1\n')
    const mistaken = new SettingProblems()
    readConfigFile({ TRILOG_CONFIG: path }, mistaken)
    assert.deepEqual(toldBy(mistaken), [
      `TRILOG_CONFIG names ${path} with a mistake in line 1: there is no setting MQ_NODEID`,
    ])
  })
})

it('each setting has a flag of its own', () => {
  const flags = Object.keys(allSettings).map(flagOf)
  assert.equal(new Set(flags).size, flags.length)
  assert.ok(!flags.includes('--output') && !flags.includes('--help'))
  assert.deepEqual([flagOf('LOGSTORE_DATA_DIR'), flagOf('TRILOG_LOG_LEVEL')], ['--logstore-data-dir', '--log-level'])
})
