/**
 * Runs a Dockerfile without a container engine: each stage is a directory, COPY copies into it, RUN runs a shell in it.
 *
 * F1  files that `.dockerignore` leaves out are not there
 * F2  paths of the image become paths below the stage's directory; nothing outside is written
 * F3  an unknown instruction fails
 */
import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, relative } from 'node:path'
import { outputOf } from './program.ts'

export interface Instruction {
  readonly name: string
  readonly text: string
}

/** The instructions, without comments. A line that ends in a backslash is joined with the next. */
export function instructionsOf(dockerfile: string): readonly Instruction[] {
  const lines = dockerfile
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
  return lines
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, name = '', text = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? assert.fail(`no instruction: ${line}`)
      return { name, text }
    })
}

export interface Image {
  /** The stage's root directory. */
  readonly root: string
  readonly env: Readonly<Record<string, string>>
  readonly user: string
  readonly entrypoint: readonly string[]
  readonly command: readonly string[]
  readonly healthcheck: readonly string[]
  readonly volumes: readonly string[]
  readonly ports: readonly string[]
}

type Stage = { -readonly [Name in keyof Image]: Image[Name] } & {
  workdir: string
  readonly env: Record<string, string>
}

export interface ImageBuild {
  readonly context: string
  /** The stages are made in this directory. */
  readonly directory: string
  /** Environment of RUN steps. */
  readonly env: NodeJS.ProcessEnv
  /** May do a RUN step in another way; true: done. */
  readonly instead: (command: string, workdir: string) => Promise<boolean>
}

/** @returns the last stage */
export async function buildImage({ context, directory, env, instead }: ImageBuild): Promise<Image> {
  const stages = new Map<string, Stage>()
  const included = includedIn(context)
  let stage: Stage | undefined
  for (const { name, text } of instructionsOf(readFileSync(`${context}/Dockerfile`, 'utf8'))) {
    if (name === 'FROM') {
      const alias = / AS (\S+)$/.exec(text)?.[1] ?? `stage-${stages.size}`
      const root = join(directory, alias)
      mkdirSync(root)
      stage = {
        root,
        workdir: '/',
        env: {},
        user: 'root',
        entrypoint: [],
        command: [],
        healthcheck: [],
        volumes: [],
        ports: [],
      }
      stages.set(alias, stage)
      continue
    }
    assert(stage !== undefined, 'FROM comes first')
    const workdir = join(stage.root, stage.workdir)
    switch (name) {
      case 'WORKDIR':
        stage.workdir = text
        mkdirSync(join(stage.root, text), { recursive: true })
        break
      case 'COPY': {
        const [, from, rest = ''] = /^(?:--from=(\S+) )?(.*)$/.exec(text) ?? []
        const paths = rest.split(' ')
        const target = paths.pop()!
        const into = join(isAbsolute(target) ? stage.root : workdir, target)
        for (const path of paths) {
          if (from === undefined) copy(context, included, path, into)
          else await linkTree(join(stages.get(from)!.root, path), into)
        }
        break
      }
      case 'RUN': {
        if (await instead(text, workdir)) break
        const command = text.replaceAll(/(?<=^| )\/(?=\w)/g, `${stage.root}/`) // F2
        await outputOf({ command: 'sh', args: ['-ec', command], cwd: workdir, env })
        break
      }
      case 'ENV':
        for (const [, variable, value] of text.matchAll(/(\w+)=(\S*)/g)) stage.env[variable!] = value!
        break
      case 'VOLUME':
        stage.volumes = text.split(' ')
        break
      case 'EXPOSE':
        stage.ports = text.split(' ')
        break
      case 'USER':
        stage.user = text
        break
      case 'STOPSIGNAL':
        assert.equal(text, 'SIGTERM')
        break
      case 'HEALTHCHECK':
        stage.healthcheck = JSON.parse(/CMD (\[.*\])$/.exec(text)![1]!) as string[]
        break
      case 'ENTRYPOINT':
        stage.entrypoint = JSON.parse(text) as string[]
        break
      case 'CMD':
        stage.command = JSON.parse(text) as string[]
        break
      default:
        assert.fail(`${name} is not known here`) // F3
    }
  }
  assert(stage !== undefined)
  return stage
}

/** Copies a directory by hard links, as nothing writes to its files. @param to a new directory, or one that has none of the files */
export async function linkTree(from: string, to: string): Promise<void> {
  await outputOf({ command: 'cp', args: ['-alT', from, to], cwd: dirname(from) })
}

/** Copies the content of a directory, or a file itself, like COPY. */
function copy(root: string, has: (path: string) => boolean, path: string, target: string): void {
  const from = join(root, path)
  if (!statSync(from).isDirectory()) {
    assert.ok(has(path), `${path} is left out by .dockerignore`)
    cpSync(from, target.endsWith('/') ? join(target, basename(path)) : target)
    return
  }
  const filter = (file: string): boolean => file === from || has(relative(root, file))
  cpSync(from, target, { recursive: true, verbatimSymlinks: true, filter })
}

/** F1. Knows only a `.dockerignore` that leaves out everything and then names what is included. */
function includedIn(context: string): (path: string) => boolean {
  const lines = readFileSync(`${context}/.dockerignore`, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  const [all, ...included] = lines
  assert.equal(all, '*')
  assert.ok(included.every((line) => line.startsWith('!')))
  const paths = included.map((line) => line.slice(1))
  return (path) => paths.some((each) => path === each || path.startsWith(`${each}/`) || each.startsWith(`${path}/`))
}
