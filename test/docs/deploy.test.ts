/** The files in `deploy/`, compared with the services, the image and the tarball. */
import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { describe, it } from 'node:test'
import { codeOf, document, handbook, root, tableOf } from './markdown.ts'

const TABLES = ['log store', 'object store', 'broker', 'process', 'cluster', 'queries from a bucket']
/** Labels that Prometheus adds to every series of a target. */
const OF_TARGETS = ['instance', 'job']

/** Labels by metric, from the tables of the documents, which another test compares with the services. */
const labels = new Map(
  TABLES.flatMap((what) => {
    const of = /^[lobpc]/.test(what) && what !== 'queries from a bucket' ? `the ${what}` : what
    return tableOf(handbook(), `Metrics of ${of}`)
  }).map(([name, , given]) => [codeOf(name), given!.match(/\w+/g) ?? []] as const),
)
labels.set('up', [])

/** Labels of a series; null: none of the tables has its metric. */
function labelsOf(series: string): readonly string[] | null {
  const isBucket = series.endsWith('_bucket')
  const known = labels.get(series) ?? labels.get(series.replace(/_(bucket|count|sum)$/, ''))
  return known === undefined ? null : [...known, ...OF_TARGETS, ...(isBucket ? ['le'] : [])]
}

/** Labels in an expression that none of its metrics has. */
function unknownLabels(expression: string): readonly string[] {
  const series = (expression.match(/[a-z_]\w*/g) ?? []).filter((word) => labelsOf(word) !== null)
  assert.ok(series.length > 0, expression)
  const all = new Set(series.flatMap((each) => labelsOf(each)!))
  const selected = Array.from(expression.matchAll(/([a-z_]\w*)\{([^}]*)\}/g), ([, name, given]) =>
    Array.from(given!.matchAll(/(\w+)\s*[=!]/g), ([, label]) => label!).filter(
      (label) => !(labelsOf(name!) ?? []).includes(label),
    ),
  )
  const grouped = Array.from(expression.matchAll(/\b(?:by|without|on|ignoring)\s*\(([^)]*)\)/g), ([, given]) =>
    given!.split(',').map((label) => label.trim()),
  )
  return [...selected.flat(), ...grouped.flat().filter((label) => !all.has(label))]
}

/** Labels of the result of an expression: those that it is grouped by, or else those of its metrics. */
function shownLabels(expression: string): ReadonlySet<string> {
  const grouped = Array.from(expression.matchAll(/\bby\s*\(([^)]*)\)/g), ([, given]) => given!.split(', ')).flat()
  const series = (expression.match(/[a-z_]\w*/g) ?? []).flatMap((word) => labelsOf(word) ?? [])
  return new Set(grouped.length > 0 ? grouped : series)
}

interface Panel {
  readonly title: string
  readonly targets?: readonly { readonly expr: string; readonly legendFormat?: string }[]
}

describe('the dashboards', () => {
  for (const path of globSync('deploy/grafana/*.json', { cwd: root }))
    it(`of ${path} ask for labels that their metrics have`, () => {
      const { panels, templating } = JSON.parse(document(path)) as {
        readonly panels: readonly Panel[]
        readonly templating: { readonly list: readonly { readonly query: string }[] }
      }
      for (const { query } of templating.list) {
        const [, name, label] = /^label_values\((\w+), (\w+)\)$/.exec(query) ?? []
        if (name !== undefined) assert.ok(labelsOf(name)?.includes(label!), query)
      }
      const targets = panels.flatMap((panel) => (panel.targets ?? []).map((target) => ({ title: panel.title, target })))
      assert.ok(targets.length > 5)
      for (const { title, target } of targets) {
        assert.deepEqual(unknownLabels(target.expr), [], `${title}: ${target.expr}`)
        const shown = Array.from((target.legendFormat ?? '').matchAll(/\{\{(\w+)\}\}/g), ([, label]) => label!)
        for (const label of shown) assert.ok(shownLabels(target.expr).has(label), `${title}: {{${label}}}`)
      }
    })
})

describe('the alerts', () => {
  const alerts = document('deploy/alerts.yml')
    .split(/^ +- alert: /m)
    .slice(1)
    .map((text) => {
      const [, name = '', expression = ''] = /^(\w+)\n +expr: ((?:.+\n)(?: {10}.*\n)*)/.exec(text) ?? []
      return { name, expression, shown: Array.from(text.matchAll(/\$labels\.(\w+)/g), ([, label]) => label!) }
    })

  it('ask for labels that their metrics have, and show those that are left', () => {
    assert.ok(alerts.length > 10)
    for (const { name, expression, shown } of alerts) {
      assert.deepEqual(unknownLabels(expression), [], name)
      for (const label of shown) assert.ok(shownLabels(expression).has(label), `${name}: ${label}`)
    }
  })

  it('have each a case that fires, and one that does not', () => {
    const cases = document('deploy/alerts.test.yml').matchAll(/ alertname: (\w+)\n +exp_alerts:( \[\])?\n/g)
    const tried = new Set(
      Array.from(cases, ([, name, none]) => `${name} ${none === undefined ? 'fires' : 'is silent'}`),
    )
    const missing = alerts.flatMap(({ name }) =>
      [`${name} fires`, `${name} is silent`].filter((each) => !tried.has(each)),
    )
    assert.deepEqual(missing, [])
  })
})

describe('the systemd unit', () => {
  const lines = document('deploy/systemd/trilog.service').split('\n')
  const valueOf = (name: string): string | undefined =>
    lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1)

  it('is told by the process when it is ready and alive, and gives it time to close', () => {
    assert.equal(valueOf('Type'), 'notify')
    assert.ok(Number(valueOf('WatchdogSec')) > 0)
    assert.ok(Number(valueOf('TimeoutStopSec')) > 10, 'closing takes at most 10 s')
    assert.equal(valueOf('Restart'), 'on-failure')
    assert.equal(valueOf('RestartPreventExitStatus'), '2')
    assert.equal(valueOf('ExecReload'), '/bin/kill -HUP $MAINPID')
  })

  it('starts what the tarball has at its place, with data where the sandbox lets it write', () => {
    assert.equal(valueOf('ExecStart'), '/opt/trilog/bin/trilog start')
    assert.equal(valueOf('WorkingDirectory'), `/var/lib/${valueOf('StateDirectory')}`)
    assert.notEqual(valueOf('User'), 'root')
  })

  it('takes from the process what it can do without', () => {
    const sandbox = {
      ProtectSystem: 'strict',
      ProtectHome: 'yes',
      PrivateTmp: 'yes',
      PrivateDevices: 'yes',
      NoNewPrivileges: 'yes',
      CapabilityBoundingSet: '',
      RestrictAddressFamilies: 'AF_INET AF_INET6 AF_UNIX',
      RestrictNamespaces: 'yes',
      SystemCallFilter: '@system-service',
      UMask: '0077',
    }
    assert.deepEqual(Object.fromEntries(Object.keys(sandbox).map((name) => [name, valueOf(name)])), sandbox)
  })
})

describe('the compose file', () => {
  const compose = document('deploy/compose.yaml')
  const instructions = document('Dockerfile')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
  const textOf = (name: string): string =>
    instructions.findLast((line) => line.startsWith(`${name} `))?.slice(name.length + 1) ?? ''

  it('keeps the volume of the image, in a root file system that cannot be written', () => {
    assert.match(compose, new RegExp(`^ +- data:${textOf('VOLUME')}$`, 'm'))
    assert.match(compose, /^volumes:\n {2}data:$/m)
    assert.match(compose, /^ +read_only: true$/m)
  })

  it('leaves user, health check and command to the image', () => {
    assert.match(textOf('USER'), /^[1-9]\d*:[1-9]\d*$/)
    assert.match(textOf('HEALTHCHECK'), /CMD \["node", "\/app\/bin\/trilog\.js", "health"\]$/)
    assert.doesNotMatch(compose, /^ +(user|healthcheck|command|entrypoint|privileged):/m)
  })

  it('waits longer for the end than the process takes', () => {
    const [, seconds] = /^ +stop_grace_period: (\d+)s$/m.exec(compose) ?? []
    assert.ok(Number(seconds) > 10)
  })
})
