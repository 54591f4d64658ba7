/**
 * Checks that no answer or log line of the console contains a secret or a withheld text; pages of changes alone show
 * the latter.
 */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../secrets/watch.ts'
import { eventually } from '../support/eventually.ts'
import { ownHost } from '../support/gateway/own-host.ts'
import { object } from '../support/operator/standalone-run.ts'
import { type ChangingServer, startChangingServer } from '../support/servers/changing-server.ts'
import { tool } from '../support/servers/raw-server.ts'
import { group, OpenConsole } from './support.ts'

const KEY = secret('canary-of-a-key-0123456789')
const PASTED = secret('canary-of-a-pasted-token-0123456789')
const WITHHELD = 'canary of a withheld text'
const VIEW = 'application/vnd.portico.view+json'

let remote: ChangingServer
let one: OpenConsole
/** Refuses every request and repeats its credential. */
const echo = createServer((request, response) => {
  const { 'x-key': key } = request.headers
  response.writeHead(403, { 'content-type': 'text/plain', 'x-refused': String(key) }).end(`no such key: ${key}`)
})

const entry = (name: string, url: string) =>
  object(
    'MCPServerEntry',
    name,
    `spec:\n  groupRef: {name: all}\n  remoteUrl: "${url}"\n  transport: streamable-http\n  allowPrivateEndpoint: true\n  headerForward: {addHeadersFromSecret: [{headerName: x-key, valueSecretRef: {name: keys, key: key}}]}\n`,
  )

test.before(async () => {
  remote = await startChangingServer('modern', {
    tools: [tool('changed', `"description":"${WITHHELD}"`)],
    prompts: [`{"name":"asked","description":"${WITHHELD}"}`],
    resources: [`{"uri":"file:///a","name":"a","description":"${WITHHELD}"}`],
    instructions: WITHHELD,
  })
  await new Promise<void>((resolve) => echo.listen(0, ownHost, resolve))
  const manifests = [
    group,
    `apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {key: "${KEY}"}\n`,
    entry('far', remote.url),
    entry('echo', `http://${ownHost}:${(echo.address() as AddressInfo).port}/mcp`),
    object(
      'VirtualMCPServer',
      'front',
      'spec:\n  groupRef: {name: all}\n  incomingAuth: {type: anonymous}\n  config: {pinning: {mode: enforce}, audit: {enabled: true}, usage: {enabled: true}}\n',
    ),
  ]
  one = await OpenConsole.start(manifests.join('---\n'), [], { PORTICO_LOG_LEVEL: 'debug' })
})
test.after(async () => {
  await one?.[Symbol.asyncDispose]()
  echo.closeAllConnections()
  echo.close()
  await remote?.close()
})

interface Answer {
  readonly what: string
  readonly text: string
}

/** Requests a page in all three formats. */
async function ask(path: string): Promise<readonly Answer[]> {
  const answers = ['text/html', 'application/json', VIEW].map(async (accept) => {
    const answer = await one.get(path, { accept })
    const what = `${accept} ${path} ${answer.status}`
    return { what, text: `${JSON.stringify([...answer.headers])}\n${await answer.text()}` }
  })
  return Promise.all(answers)
}

const PARTS = ['', '/tools', '/tools/far_changed', '/map', '/access', '/changes', '/usage', '/connect', '/yaml', '/log']
const PAGES = [
  '/',
  '/workloads',
  '/map',
  '/access',
  '/changes',
  '/usage',
  '/catalog',
  '/help',
  '/openapi.json',
  '/nothing',
]

/** Submits the forms of a page, with unacceptable values and with a token. */
async function send(path: string): Promise<readonly Answer[]> {
  const page = await one.text(path)
  const form = /name="form" value="([^"]+)"/.exec(page)?.[1] ?? ''
  const headers = { cookie: one.cookie, origin: one.url, accept: 'application/json' }
  const fields = [{ token: PASTED }, { token: `${PASTED} x` }, { tool: 'far_changed', claims: '', arguments: '' }, {}]
  return Promise.all(
    fields.map(async (field) => {
      const body = new URLSearchParams(Object.entries({ form, ...field }))
      const answer = await fetch(one.url + path, { method: 'POST', headers, body })
      return { what: `form of ${path} ${answer.status}`, text: await answer.text() }
    }),
  )
}

test('no page, view, JSON, error or log has a link, a key, a token or a withheld text', async () => {
  const links = [await one.link()]
  const isOpened = await fetch(links[0] as string, { redirect: 'manual' })
  one.cookie = isOpened.headers.get('set-cookie')?.split(';')[0] ?? ''
  links.push(await one.link())
  const cookie = one.cookie.split('=')[1] as string
  const tokens = links.map((link) => new URL(link).searchParams.get('secret') as string)
  for (const token of [...tokens, cookie]) assert.match(token, /^[\w-]{43}$/)
  await eventually('the page of changes shows the withheld text', async () =>
    (await one.text('/ns/default/vmcp/front/changes')).includes(WITHHELD),
  )
  const { facts } = await one.json('/workloads')
  const objects = facts.rows.map(({ href }: { href: string }) => href) as string[]
  assert.ok(objects.length >= 3, objects.join())
  const paths = [...PAGES, ...objects.flatMap((href) => PARTS.map((part) => href + part))]
  const answers: Answer[] = []
  for (const path of paths) answers.push(...(await ask(path)))
  for (const path of ['/access', '/tools', '/tools/far_changed', '/yaml'])
    answers.push(...(await send(`/ns/default/vmcp/front${path}`)))
  // The used link, a wrong one, and the current one at a path that does not exist.
  for (const at of [links[0] as string, `${links[1]}x`, `${one.url}/nothing?secret=${tokens[1]}`]) {
    const answer = await fetch(at, { redirect: 'manual' })
    answers.push({ what: `the link ${answer.status}`, text: await answer.text() })
  }
  answers.push({ what: 'what the process prints', text: one.portico.errors })
  answers.push({ what: 'run.log', text: readFileSync(join(one.folder.path, 'state/run.log'), 'utf8') })
  for (const { what, text } of answers) {
    for (const token of [...tokens, cookie]) assert.not.ok(text.includes(token), `${what} has a link or a cookie`)
    assert.not.ok(text.includes(KEY), `${what} has a key: ${text.slice(text.indexOf(KEY) - 200, text.indexOf(KEY))}`)
    assert.not.ok(text.includes(PASTED), `${what} has a pasted token`)
    if (!what.includes('/changes 200')) assert.not.ok(text.includes(WITHHELD), `${what} has a withheld text`)
  }
})

test.run()
