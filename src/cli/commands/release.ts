/**
 * `mq cli release …`: drafts of the documents that go with a release, in Markdown. Source: specification "Command-line tool mq", row "Release
 * artifacts"; what stands in them is ours. They ask no broker: what only people know stays a box to tick.
 */
import type { Call, Command } from '../command.ts'
import { usageFailure } from '../failure.ts'
import { writeOutput } from '../output-file.ts'
import { visible } from '../style.ts'

interface Heading {
  readonly audience: string
  readonly owner: string
  readonly pilotName: string
  readonly decisionDate: string
}

interface Artifact {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly audience: string
  readonly sections: (heading: Heading) => readonly (readonly [title: string, lines: readonly string[]])[]
}

const UNSET = '(to be named)'

const boxes = (...items: readonly string[]): readonly string[] => items.map((item) => `- [ ] ${item}`)
const table = (head: readonly string[], rows: readonly (readonly string[])[]): readonly string[] =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`)

const ARTIFACTS: readonly Artifact[] = [
  {
    name: 'packet-template',
    title: 'Release packet',
    description: 'what changed in a release, how it was checked, who decides',
    audience: 'release reviewers',
    sections: ({ owner, decisionDate }) => [
      [
        'What is released',
        boxes('version and commit', 'changes since the last release', 'data format: unchanged, or how it is upgraded'),
      ],
      [
        'Evidence',
        table(
          ['Claim', 'Evidence', 'Result'],
          [
            ['Tests pass', '`npm test`', ''],
            ['Configuration is valid', '`mq --validate-config --output json`', ''],
            ['The node is well', '`mq cli --target … health`', ''],
            ['Diagnostics can be collected', '`mq diagnostics collect --bundle-id … --output …`', ''],
          ],
        ),
      ],
      [
        'Risks and rollback',
        boxes('known limits are named', 'a backup was restored on another machine', 'the rollback was tried'),
      ],
      ['Decision', boxes(`${owner} decides by ${decisionDate}: release, hold, or drop`)],
    ],
  },
  {
    name: 'evidence-burn-down',
    title: 'Evidence burn-down',
    description: 'evidence that a release still needs, and who provides it',
    audience: 'the team',
    sections: ({ owner, decisionDate }) => [
      [
        'Open evidence',
        table(
          ['Claim', 'Evidence', 'Owner', 'Due', 'State'],
          [
            ['No acknowledged record is lost', 'kill and power-loss tests', owner, decisionDate, 'open'],
            ['Each delivery ends once', 'lease and retry tests', owner, decisionDate, 'open'],
            ['Other tenants see nothing', 'every route, called with every permission', owner, decisionDate, 'open'],
            ['It holds the load', 'measured beside the server', owner, decisionDate, 'open'],
          ],
        ),
      ],
      ['Rule', ['A link to the evidence closes a claim; a date does not.']],
    ],
  },
  {
    name: 'controlled-beta-onboarding',
    title: 'Controlled beta onboarding',
    description: 'what a pilot needs before its first record',
    audience: 'the pilot team',
    sections: ({ pilotName, owner }) => [
      [
        'Before the first record',
        boxes(
          `a tenant and keys for ${pilotName}, with the grants it needs`,
          'quotas that fit',
          'a data directory on a disk with room',
          `${owner} can be reached`,
        ),
      ],
      [
        'First day',
        boxes(
          '`mq cli --target … health` says ok',
          'the streams are there, with retention and failure policy',
          'a record was published, claimed and acknowledged',
          'a dead letter was made, found and put back',
        ),
      ],
      [
        'When something is wrong',
        boxes(
          '`mq cli --target … diagnostics collect --bundle-id … --output …`',
          `the bundle went to ${owner}; it holds no payloads`,
        ),
      ],
      ['Way out', boxes(`what ${pilotName} does when the beta ends is written down`)],
    ],
  },
  {
    name: 'post-pilot-roadmap-reset',
    title: 'Post-pilot roadmap reset',
    description: 'what a pilot taught, and what is built because of it',
    audience: 'product and engineering',
    sections: ({ pilotName, owner, decisionDate }) => [
      [`What ${pilotName} did`, boxes('streams, groups and records a day', 'what was used, and what never was')],
      ['What went wrong', table(['What', 'How often', 'Found by', 'Follow-up'], [['', '', '', '']])],
      ['Roadmap', table(['Keep', 'Change', 'Drop'], [['', '', '']])],
      ['Decision', boxes(`${owner} decides by ${decisionDate} what is built next`)],
    ],
  },
]

function markdownOf(artifact: Artifact, heading: Heading): string {
  const { audience, owner, pilotName, decisionDate } = heading
  const facts = [
    ['Audience', audience],
    ['Owner', owner],
    ['Pilot', pilotName],
    ['Decision date', decisionDate],
  ].map(([name, value]) => `- **${name}:** ${value}`)
  const sections = artifact.sections(heading).flatMap(([title, lines]) => ['', `## ${title}`, '', ...lines])
  return [`# ${artifact.title}`, '', ...facts, ...sections, ''].join('\n')
}

/** In a document, text of the command line is text: it opens no list, link or HTML. */
const inMarkdown = (text: string): string => text.replaceAll(/[\\`*_{}[\]<>#|]/g, (character) => `\\${character}`)

function dateOf(call: Call): string | null {
  const text = call.label('decision-date')
  if (text === null) return null
  const isDate = /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text))
  if (!isDate || new Date(text).toISOString().slice(0, 10) !== text) {
    throw usageFailure('--decision-date must be a date: 2026-05-01')
  }
  return text
}

const releaseCommand = (artifact: Artifact): Command => ({
  name: `cli release ${artifact.name}`,
  operands: [],
  options: [
    { flags: '--output-path <PATH>', description: 'file to write; default: stdout' },
    { flags: '--audience <NAME>', description: `audience; default: ${artifact.audience}` },
    { flags: '--owner <NAME>', description: 'person who is responsible for it' },
    { flags: '--pilot-name <NAME>', description: 'name of the pilot' },
    { flags: '--decision-date <DATE>', description: 'date of the decision, as 2026-05-01' },
  ],
  places: ['nowhere'],
  description: `Draft in Markdown: ${artifact.description}`,
  examples: [
    `mq cli release ${artifact.name} --owner anna --decision-date 2026-05-01`,
    `mq cli release ${artifact.name} --output-path ${artifact.name}.md --output json`,
  ],
  async run(call) {
    const [audience, owner, pilot] = [call.label('audience'), call.label('owner'), call.label('pilot-name')]
    const date = dateOf(call)
    const path = call.text('output-path')
    if (path !== null && path.trim() === '') throw usageFailure('--output-path must name a file')
    const markdown = markdownOf(artifact, {
      audience: inMarkdown(audience ?? artifact.audience),
      owner: inMarkdown(owner ?? UNSET),
      pilotName: inMarkdown(pilot ?? UNSET),
      decisionDate: date ?? UNSET,
    })
    const file = path === null ? null : writeOutput('--output-path', path, markdown)
    return {
      json: {
        artifact: artifact.name,
        title: artifact.title,
        audience: audience ?? artifact.audience,
        owner,
        pilot_name: pilot,
        decision_date: date,
        output_path: file,
        markdown,
      },
      text: (style) => (file === null ? markdown.trimEnd().split('\n') : [`${style.good('wrote')} ${visible(file)}`]),
    }
  },
})

export const RELEASE_COMMANDS: readonly Command[] = ARTIFACTS.map(releaseCommand)
