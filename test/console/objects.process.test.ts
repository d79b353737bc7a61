/** Issue "The console", 1 and 4: signing in to services that ask for credentials, and working with objects, in a browser. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { after, describe, it } from 'node:test'
import { AwsClient } from 'aws4fetch'
import type { Locator } from 'playwright-core'
import { ConsoleServer, SwitchableProxy, Visitor, startBrowser } from '../support/console.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { policyTenant } from '../support/logstore.ts'
import { eventually } from '../support/waiting.ts'
import { DRAGGED } from './dragged-files.ts'

const SECRET = 'a-secret-that-stays-in-the-page'
const API_KEY = 'an-api-key-of-the-broker'
const TOKEN = 'a-token-of-the-log-store'
const HOSTILE = '../<img src=x onerror=alert(1)>/?a=b&c#d%2F +".html'
const PERMISSIONS = ['read', 'write', 'list', 'delete', 'admin']
const GRANTS = [
  'tenant.administer',
  'tenant.inspect',
  'create_stream',
  'stream.inspect',
  'stream.publish',
  'stream.consume',
  'stream.ack',
]

const directory = temporaryDirectory()
const fileOf = (name: string, content: object): string => {
  writeFileSync(`${directory}/${name}`, JSON.stringify(content))
  return `${directory}/${name}`
}
const accessKey = {
  access_key_id: 'AKIDCONSOLE',
  secret_access_key: SECRET,
  principal: 'alice',
  permissions: PERMISSIONS,
}
const brokerKey = {
  key_sha256: createHash('sha256').update(API_KEY).digest('hex'),
  tenant: 'acme',
  principal: 'alice',
  grants: GRANTS.map((permission) => ({ permission })),
}
const server = await ConsoleServer.start({
  OBJSTORE_AUTH_MODE: 'sigv4',
  OBJSTORE_CREDENTIALS_FILE: fileOf('keys.json', { keys: [accessKey] }),
  OBJSTORE_REGION: 'eu-west-1',
  MQ_AUTH_MODE: 'api-key',
  MQ_CREDENTIALS_FILE: fileOf('broker.json', { keys: [brokerKey] }),
  LOGSTORE_TENANT_POLICY_FILE: fileOf('tenants.json', { tenants: [policyTenant('acme', TOKEN)] }),
})
const browser = await startBrowser()
const visitor = await Visitor.open(browser, server.at('console'))
const { page } = visitor
after(async () => {
  await browser.close()
  await server.kill()
})

const dialog = page.getByRole('dialog')

/** Another client of the same store. */
const store = new AwsClient({ accessKeyId: 'AKIDCONSOLE', secretAccessKey: SECRET, region: 'eu-west-1', service: 's3' })

/** Keys of the uploads in parts that are neither complete nor aborted. */
async function open(): Promise<readonly string[]> {
  const answer = await store.fetch(`${server.at('objectstore')}/photos?uploads`)
  return Array.from((await answer.text()).matchAll(/<Key>(.*?)<\/Key>/g), ([, key]) => key!)
}

async function signIn(id: string, secret: string): Promise<void> {
  await page.getByLabel('Access key id').fill(id)
  await page.getByLabel('Secret access key').fill(secret)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

describe('signing in', () => {
  it('to the object store is refused with a wrong secret, in words, and done with the right one', async () => {
    await page.goto('/objects')
    await signIn('AKIDCONSOLE', 'wrong')
    await page.getByRole('alert').getByText('SignatureDoesNotMatch').waitFor()
    await signIn('NOBODY', SECRET)
    await page.getByRole('alert').getByText('InvalidAccessKeyId').waitFor()
    await signIn('AKIDCONSOLE', SECRET)
    await page.getByRole('heading', { name: 'No bucket yet' }).waitFor()
    const command = await page.getByLabel('Command', { exact: true }).textContent()
    assert.ok(command!.startsWith(`curl -X PUT ${server.at('objectstore')}/photos --aws-sigv4 aws:amz:eu-west-1:s3 `))
  })

  it('to the broker takes an API key, to the log store a tenant and its token', async () => {
    await page.goto('/streams')
    await page.getByLabel('API key').fill('wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').getByText('authentication_failed').waitFor()
    await page.getByLabel('API key').fill(API_KEY)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'No stream yet' }).waitFor()

    await page.goto('/')
    const broker = page.getByRole('region', { name: 'Broker' })
    await broker.getByText('Published', { exact: true }).waitFor() // from its streams, as its metrics are off
    await broker.getByText('MQ_METRICS_EXPOSURE=http').waitFor()
    const card = page.getByRole('region', { name: 'Log store' })
    await card.getByLabel('Tenant').fill('acme')
    await card.getByLabel('Token').fill('wrong')
    await card.getByRole('button', { name: 'Sign in' }).click()
    await card.getByRole('alert').waitFor()
    await card.getByLabel('Token').fill(TOKEN)
    await card.getByRole('button', { name: 'Sign in' }).click()
    await card.getByText('Healthy').waitFor()
  })

  it('lasts over a reload, and ends in this tab when one signs out', async () => {
    await page.goto('/streams')
    await page.getByRole('heading', { name: 'No stream yet' }).waitFor()
    await page.getByRole('button', { name: 'Sign out of the broker' }).click()
    await page.getByLabel('API key').waitFor()
    await page.reload()
    await page.getByLabel('API key').waitFor()
  })
})

describe('objects in the console', () => {
  it('go into a bucket that was just made', async () => {
    await page.goto('/objects')
    await page.getByRole('button', { name: 'Create bucket' }).click()
    await dialog.getByLabel('Name').fill('Photos')
    await dialog.getByRole('button', { name: 'Create bucket' }).click()
    await dialog.getByRole('alert').getByText('InvalidBucketName').waitFor()
    await dialog.getByLabel('Name').fill('photos')
    await dialog.getByRole('button', { name: 'Create bucket' }).click()
    await page.getByRole('heading', { name: 'No object yet' }).waitFor()
  })

  it('of 20 MiB are sent in parts, with a pause, and come back byte by byte', async () => {
    const bytes = randomBytes(20 * 1024 * 1024)
    await page.route(/film\.bin\?partNumber=3/, () => {}) // the last part is never sent on
    await page.getByLabel('Files to upload').setInputFiles({ name: 'film.bin', mimeType: 'video/mp4', buffer: bytes })
    await page.getByText('16 MiB of 20 MiB').waitFor()
    const progress = page.getByRole('progressbar', { name: 'Upload of film.bin' })
    assert.equal(await progress.getAttribute('value'), String(16 * 1024 * 1024))
    await page.getByRole('button', { name: 'Pause film.bin' }).click()
    await page.getByText('paused').waitFor()
    await page.unrouteAll()
    await page.getByRole('button', { name: 'Resume film.bin' }).click()
    await page.getByText('stored').waitFor()
    await page.getByRole('button', { name: 'film.bin', exact: true }).click()
    const detail = page.getByRole('complementary', { name: 'Object' })
    await detail.getByText('video/mp4').waitFor()
    await detail.getByText('CRC64NVME').waitFor()
    await detail.getByTitle('20,971,520 bytes').waitFor()
    const downloading = page.waitForEvent('download')
    await detail.getByRole('button', { name: 'Download' }).click()
    const download = await downloading
    assert.equal(download.suggestedFilename(), 'film.bin')
    assert.ok(readFileSync(await download.path()).equals(bytes))
  })

  it('have a link that works without the console until it expires', async () => {
    await page.getByRole('button', { name: 'Link', exact: true }).click()
    await dialog.getByRole('button', { name: 'Make the link' }).click()
    const link = await dialog.getByLabel('Command', { exact: true }).textContent()
    assert.ok(link!.startsWith(`${server.at('objectstore')}/photos/film.bin?`), link!)
    await dialog.getByText('It works until').waitFor()
    const answer = await fetch(link!)
    assert.equal(answer.status, 200)
    assert.equal((await answer.arrayBuffer()).byteLength, 20 * 1024 * 1024)
    await page.keyboard.press('Escape')
  })

  it('that are cancelled or fail at any moment leave nothing behind, and no part of an upload open', async () => {
    await page.goto('/objects/photos')
    await page.getByRole('button', { name: 'film.bin', exact: true }).waitFor()
    const buffer = Buffer.alloc(9 * 1024 * 1024)
    const upload = (name: string): Promise<void> =>
      page.getByLabel('Files to upload').setInputFiles({ name, mimeType: '', buffer })
    const shown = (name: string): Locator => page.getByRole('listitem').filter({ hasText: name })

    // Cancelled after the store has created the upload, but before the page knows it.
    const begun = Promise.withResolvers<void>()
    await page.route(/begun\.bin\?uploads=$/, async (route) => {
      const response = await route.fetch()
      await begun.promise
      await route.fulfill({ response })
    })
    await upload('begun.bin')
    await eventually(async () => (await open()).includes('begun.bin'))
    await shown('begun.bin').getByRole('button', { name: 'Cancel' }).click()
    await shown('begun.bin').getByText('cancelled').waitFor()
    begun.resolve()
    await eventually(async () => !(await open()).includes('begun.bin'))

    // Cancelled while a part is under way.
    const sent = Promise.withResolvers<void>()
    await page.route(/under-way\.bin\?partNumber/, () => sent.resolve())
    await upload('under-way.bin')
    await sent.promise
    assert.ok((await open()).includes('under-way.bin'))
    await shown('under-way.bin').getByRole('button', { name: 'Cancel' }).click()
    await eventually(async () => !(await open()).includes('under-way.bin'))

    // A part is refused, and the first try to abort the upload fails.
    let tries = 0
    await page.route(/failed\.bin\?partNumber/, (route) => route.fulfill({ status: 403, body: 'not you' }))
    await page.route(/failed\.bin\?uploadId/, (route) => (++tries === 1 ? route.abort() : route.continue()))
    await upload('failed.bin')
    await shown('failed.bin').getByText('not you').waitFor()
    await eventually(async () => tries === 2 && !(await open()).includes('failed.bin'))
    const left = await store.fetch(`${server.at('objectstore')}/photos?list-type=2`)
    assert.deepEqual(
      Array.from((await left.text()).matchAll(/<Key>(.*?)<\/Key>/g), ([, key]) => key),
      ['film.bin'],
    )
    await page.unrouteAll()
    let isAway = true
    await page.route(/failed\.bin\?partNumber/, (route) => (isAway ? route.abort() : route.continue()))
    await shown('failed.bin').getByRole('button', { name: 'Try failed.bin again' }).click()
    await shown('failed.bin').getByText('It is sent again').waitFor()
    isAway = false
    await shown('failed.bin').getByText('stored').waitFor()
    assert.equal(await shown('failed.bin').getByRole('alert').count(), 0)
    await page.unrouteAll()
  })

  it('under way in a tab that is closed are aborted, and what others left open is shown and aborted', async () => {
    const stored = await page.evaluate<string>('JSON.stringify(sessionStorage)')
    const tab = await page.context().newPage()
    await tab.goto('/objects')
    await tab.evaluate(`Object.assign(sessionStorage, ${stored})`)
    await tab.goto('/objects/photos')
    await tab.getByRole('button', { name: 'film.bin', exact: true }).waitFor()
    await tab.evaluate('XMLHttpRequest.prototype.send = () => (globalThis.isSending = true)') // the parts never arrive
    const buffer = Buffer.alloc(9 * 1024 * 1024)
    await tab.getByLabel('Files to upload').setInputFiles({ name: 'left.bin', mimeType: '', buffer })
    await eventually(() => tab.evaluate<boolean>('globalThis.isSending === true'))
    assert.deepEqual(await open(), ['left.bin'])
    await tab.close()
    await eventually(async () => (await open()).length === 0)

    const others = `${server.at('objectstore')}/photos/${encodeURIComponent('of others+<b>.bin')}?uploads`
    assert.equal((await store.fetch(others, { method: 'POST' })).status, 200)
    await page.goto('/objects/photos')
    await page.getByRole('link', { name: 'Open uploads' }).click()
    const row = page.getByRole('row', { name: 'of others+<b>.bin' })
    await row.getByRole('button', { name: 'Abort' }).click()
    await dialog.getByRole('button', { name: 'Abort' }).click()
    await page.getByRole('heading', { name: 'No upload is open' }).waitFor()
    assert.deepEqual(await open(), [])
  })

  it('with a hostile key and content are shown as text, tagged and deleted', async () => {
    await page.goto(`/objects/photos?prefix=${encodeURIComponent('a/')}`)
    await page.getByRole('heading', { name: 'Nothing begins like this' }).waitFor()
    const buffer = Buffer.from(`<script>alert(3)</script>${HOSTILE}`)
    // Browsers do not allow such names of files, so the hostile name is that of a folder in a link.
    await page.goto(`/objects/photos?prefix=${encodeURIComponent(HOSTILE)}`)
    await page.getByRole('heading', { name: 'Nothing begins like this' }).waitFor()
    await page.getByLabel('Files to upload').setInputFiles({ name: 'x.html', mimeType: 'text/html', buffer })
    await page.getByText('stored').waitFor()
    await page.goto(`/objects/photos?key=${encodeURIComponent(`${HOSTILE}x.html`)}`)
    const detail = page.getByRole('complementary', { name: 'Object' })
    await detail.getByRole('heading', { name: `${HOSTILE}x.html` }).waitFor()
    assert.equal(await detail.getByLabel('Content').textContent(), buffer.toString())
    await detail.getByRole('button', { name: 'Tags' }).click()
    await dialog.getByLabel('Tags').fill('team=a + b\nenv=test')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await detail.getByText('a + b').waitFor()
    await page.reload()
    await detail.getByText('a + b').waitFor()
    await detail.getByRole('button', { name: 'Delete' }).click()
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await detail.waitFor({ state: 'detached' })
    assert.deepEqual(visitor.complaints, [])
    assert.equal(await page.locator('img[src="x"]').count(), 0)
  })

  it('come by drag and drop, lie in folders, are found by how they begin, and show what is in them', async () => {
    for (const [path, bytes] of Object.entries(DRAGGED)) {
      mkdirSync(dirname(`${directory}/${path}`), { recursive: true })
      writeFileSync(`${directory}/${path}`, bytes)
    }
    await page.goto(`/objects/photos?prefix=${encodeURIComponent('from a disk/')}`)
    await page.getByRole('heading', { name: 'Nothing begins like this' }).waitFor()
    const devtools = await page.context().newCDPSession(page)
    const drag = (type: 'dragEnter' | 'dragOver' | 'drop'): Promise<unknown> =>
      devtools.send('Input.dispatchDragEvent', {
        type,
        x: 400,
        y: 400,
        data: { items: [], files: [`${directory}/docs`], dragOperationsMask: 1 },
      })
    await drag('dragEnter')
    await drag('dragOver')
    await page.locator('.split.over').waitFor()
    await drag('drop')
    await eventually(async () => (await page.getByText('stored').count()) === 3)
    const listed = page.getByRole('list', { name: 'Objects of photos' })
    await listed.getByRole('button', { name: 'docs/', exact: true }).click()
    await listed.getByRole('button', { name: 'notes.txt' }).click()
    const detail = page.getByRole('complementary', { name: 'Object' })
    const content = detail.getByLabel('Content')
    await content.getByText('as they are: {"a" :1').waitFor()

    await page.getByRole('navigation', { name: 'Folder' }).getByRole('link', { name: 'all' }).click()
    await listed.getByRole('button', { name: 'from a disk/', exact: true }).click()
    await listed.getByRole('button', { name: 'docs/', exact: true }).click()
    await page.getByText('1 object and 1 folder.').waitFor()
    await listed.getByRole('button', { name: '2026/', exact: true }).click()
    await page.getByLabel('Names that begin with').fill('re')
    await page.getByText('1 object and 0 folders').waitFor()
    await listed.getByRole('button', { name: 'report.json' }).click()
    await content.getByText('count').waitFor()
    assert.equal(await content.textContent(), '{\n  "count": 12345678901234567890,\n  "price": 1.50\n}')
    await page.reload() // the address has the folder, the search and the object
    await content.waitFor()
    assert.equal(await listed.getByRole('listitem').count(), 1)

    await page.getByLabel('Names that begin with').fill('')
    await listed.getByRole('button', { name: 'pixel.png' }).click()
    await detail.getByRole('img', { name: /pixel.png/ }).waitFor()
    const shown = "document.querySelector('img.preview')"
    assert.equal(await page.evaluate(`${shown}.decode().then(() => ${shown}.naturalWidth)`), 1)
    assert.deepEqual(visitor.complaints, [])
  })

  it('keep their bucket from being deleted, and one without any is deleted when its name is typed', async () => {
    await page.goto('/objects')
    await page.getByRole('button', { name: 'Delete the bucket photos' }).click()
    await dialog.getByLabel('Type photos to confirm').fill('photos')
    await dialog.getByRole('button', { name: 'Delete bucket' }).click()
    await dialog.getByRole('alert').getByText('BucketNotEmpty').waitFor()
    await page.keyboard.press('Escape')
    await page.keyboard.press('n')
    await dialog.getByLabel('Name').fill('passing')
    await dialog.getByRole('button', { name: 'Create bucket' }).click()
    await page.getByRole('heading', { name: 'No object yet' }).waitFor()
    await page.goto('/objects')
    await page.getByRole('button', { name: 'Delete the bucket passing' }).click()
    await dialog.getByLabel('Type passing to confirm').fill('other')
    await dialog.getByRole('button', { name: 'Delete bucket' }).click()
    await dialog.getByText('Type passing to delete it.').waitFor()
    await dialog.getByLabel('Type passing to confirm').fill('passing')
    await dialog.getByRole('button', { name: 'Delete bucket' }).click()
    await page.getByRole('row', { name: /passing/ }).waitFor({ state: 'detached' })
    await page.getByRole('row', { name: /photos/ }).waitFor()
  })

  it('are deleted many at once when their number is typed, and say by which request when they are not', async () => {
    const policyUrl = `${server.at('objectstore')}/photos?policy`
    const kept = { Effect: 'Deny', Principal: '*', Action: 's3:DeleteObject', Resource: 'arn:aws:s3:::photos/2.txt' }
    await store.fetch(policyUrl, { method: 'PUT', body: JSON.stringify({ Version: '2012-10-17', Statement: [kept] }) })
    await page.goto('/objects/photos')
    const files = ['a/1.txt', 'a/2.txt', 'b.txt'].map((name) => ({
      name: name.replace('a/', ''),
      mimeType: 'text/plain',
      buffer: Buffer.from(name),
    }))
    await page.getByLabel('Files to upload').setInputFiles(files)
    await eventually(async () => (await page.getByText('stored').count()) === 3)
    await page.getByLabel('Mark 1.txt').check()
    await page.getByLabel('Mark 2.txt').check()
    await page.getByRole('button', { name: 'Delete 2' }).click()
    await dialog.getByLabel('Type 2 to confirm').fill('3')
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await dialog.getByRole('alert').waitFor()
    await dialog.getByLabel('Type 2 to confirm').fill('2')
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await dialog.getByRole('alert').getByText('2.txt').waitFor()
    assert.match((await dialog.getByRole('alert').textContent())!, /1 were not deleted.*request objreq-/s)
    await store.fetch(policyUrl, { method: 'DELETE' })
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await page.getByLabel('Mark 1.txt').waitFor({ state: 'detached' })
    await page.getByLabel('Mark b.txt').waitFor()
  })

  it('are protected by a policy that says what is wrong before it is sent', async () => {
    await page.goto('/objects/photos?tab=settings')
    const policy = page.getByRole('region', { name: 'Policy' })
    await policy.getByLabel('Policy of photos').fill('{"Statement":[{"Effect":"Alow"}]}')
    await policy.getByText('Effect must be Allow or Deny').waitFor()
    await policy.getByLabel('Policy of photos').fill('')
    await policy.getByRole('button', { name: 'Begin with an example' }).click()
    await policy.getByRole('button', { name: 'Save Policy' }).click()
    await policy.getByRole('button', { name: 'Remove Policy' }).waitFor()
    const cors = page.getByRole('region', { name: 'CORS' })
    await cors.getByLabel('CORS of photos').fill('<CORSConfiguration><CORSRule></CORSConfiguration>')
    await cors.getByText('It is no XML').waitFor()
    const rule = '<AllowedOrigin>*</AllowedOrigin><AllowedMethod>PATCH</AllowedMethod>'
    await cors.getByLabel('CORS of photos').fill(`<CORSConfiguration><CORSRule>${rule}</CORSRule></CORSConfiguration>`)
    await cors.getByText('Rule 1 has AllowedMethod PATCH, which must be one of').waitFor()
    // The browser makes a page about the broken XML, and then refuses the style of that page.
    assert.ok(visitor.complaints.splice(0).every((complaint) => complaint.startsWith('Applying inline style')))
    await cors.getByLabel('CORS of photos').fill('')
    await cors.getByRole('button', { name: 'Begin with an example' }).click()
    await cors.getByRole('button', { name: 'Save CORS' }).click()
    await cors.getByRole('button', { name: 'Remove CORS' }).waitFor()
  })

  it('have pages that axe finds nothing wrong with, in both themes, signed in and out', async () => {
    assert.equal((await store.fetch(`${server.at('objectstore')}/empty`, { method: 'PUT' })).status, 200)
    const stored = await page.evaluate<string>('JSON.stringify(sessionStorage)')
    const themed = await Visitor.open(browser, server.at('console'))
    await themed.page.goto('/objects')
    await themed.page.getByLabel('Access key id').waitFor()
    assert.deepEqual(await themed.violations(), [], 'signed out')
    await themed.page.evaluate(`Object.assign(sessionStorage, ${stored})`)
    for (const [path, heading] of [
      ['/objects', /Buckets/],
      ['/objects/photos?key=b.txt', 'b.txt'],
      ['/objects/photos?tab=settings', 'Policy'],
      ['/objects/photos?tab=uploads', 'No upload is open'],
      ['/objects/empty', 'No object yet'],
    ] as const) {
      await themed.page.goto(path)
      await themed.page.getByRole('heading', { name: heading }).first().waitFor()
      await themed.page.getByRole('status').getByText('Loading…').first().waitFor({ state: 'detached' })
      assert.deepEqual(await themed.violations(), [], path)
      await themed.page.reload()
      await themed.page.getByRole('heading', { name: heading }).first().waitFor()
    }
    await themed.close()
  })

  const commands = 'and all that is empty show commands that work as they stand'
  const hasCurl = spawnSync('curl', ['--version']).error === undefined
  it(hasCurl ? commands : `${commands} (skipped: this machine has no curl)`, { skip: !hasCurl }, async () => {
    writeFileSync(`${directory}/FILE`, 'of a command')
    const env = {
      ...process.env,
      AWS_ACCESS_KEY_ID: 'AKIDCONSOLE',
      AWS_SECRET_ACCESS_KEY: SECRET,
      MQ_API_KEY: API_KEY,
      TOKEN,
    }
    const runShown = async (heading: string): Promise<void> => {
      await page.getByRole('heading', { name: heading }).waitFor()
      const command = await page.getByLabel('Command', { exact: true }).textContent()
      const { status, stdout, stderr } = spawnSync('sh', ['-c', command!], { cwd: directory, env, encoding: 'utf8' })
      assert.equal(status, 0, stderr)
      assert.doesNotMatch(stdout, /[Ee]rror/, command!)
      await page.getByRole('button', { name: /^Reload$|^look again$/ }).click()
    }
    await page.goto('/objects/empty')
    await runShown('No object yet')
    await page.getByRole('button', { name: 'FILE', exact: true }).waitFor()
    await page.goto('/logs')
    await runShown('No log record yet')
    await page.getByLabel('Dataset').waitFor()
    await page.goto('/streams')
    await page.getByLabel('API key').fill(API_KEY)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await runShown('No stream yet')
    await page.getByRole('link', { name: 'orders', exact: true }).click()
    await runShown('No record yet')
    await page.getByRole('list', { name: 'Records of orders' }).getByText('hello').waitFor()
    await page.getByRole('link', { name: 'Groups' }).click()
    await runShown('No consumer group yet')
    await page.getByRole('link', { name: 'workers', exact: true }).waitFor()
  })

  it('never bring a credential into an address, or into the log', () => {
    for (const secret of [SECRET, API_KEY, TOKEN]) {
      assert.ok(visitor.asked.every((address) => !address.includes(secret)))
      assert.ok(!server.stderr.includes(secret) && !server.stdout.includes(secret))
    }
    assert.deepEqual([...visitor.hosts], [new URL(server.at('console')).host])
    assert.deepEqual(visitor.complaints, [])
  })
})

describe('an object store somewhere else', () => {
  it('that goes away is said to be away, and the page goes on when it is back', async () => {
    const proxy = await SwitchableProxy.open('127.0.0.1:1') // no service is there
    const elsewhere = await ConsoleServer.start({ TRILOG_CONSOLE_OBJECTSTORE_URL: proxy.url }, ['objectstore'])
    after(() => elsewhere.kill())
    proxy.target = new URL(elsewhere.at('objectstore')).host
    const guest = await Visitor.open(browser, elsewhere.at('console'))
    await guest.page.goto('/objects')
    await guest.page.getByRole('button', { name: 'Go on without credentials' }).click()
    await guest.page.getByRole('heading', { name: 'No bucket yet' }).waitFor()

    const { target } = proxy
    proxy.target = null
    proxy.cut()
    await guest.page.reload()
    await guest.page
      .getByRole('alert')
      .getByText(/does not answer/)
      .first()
      .waitFor()
    proxy.target = target
    await guest.page.getByRole('heading', { name: 'No bucket yet' }).waitFor()
    await guest.close()
  })
})
