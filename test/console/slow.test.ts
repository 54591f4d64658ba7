/** Tests an API server that is slow, overloaded or down, and which requests a console sends to it and to others. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import pino from 'pino'
import type { Browser, Page } from 'puppeteer-core'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { consoleApp } from '../../console/endpoint/app.ts'
import { machinePlaces } from '../../console/places/machine.ts'
import type { Sessions } from '../../console/session/sessions.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { startBrowser } from '../support/browser.ts'
import { stoppedClock } from '../support/stopped-clock.ts'
import { type ApiStandIn, startApiStandIn } from './api-stand-in.ts'
import { type PodConsole, startPodConsole } from './in-pod.ts'

let api: ApiStandIn
let one: PodConsole
let browser: Browser

const object = (kind: string, name: string, rest: object): KubernetesObject =>
  ({
    apiVersion: 'portico.dev/v1beta1',
    kind,
    metadata: { name, namespace: 'team-a', uid: `${kind}-${name}` },
    ...rest,
  }) as unknown as KubernetesObject

test.before(async () => {
  api = await startApiStandIn([
    object('MCPGroup', 'all', { spec: {} }),
    object('VirtualMCPServer', 'tools', { spec: { groupRef: { name: 'all' }, incomingAuth: { type: 'anonymous' } } }),
  ])
  one = await startPodConsole(api.url)
  browser = await startBrowser()
})
test.after(async () => {
  await browser?.close()
  await one?.close()
  await api?.close()
})

/** Opens a tab in a separate browser context in which a new viewer is logged in. */
async function openTab(viewer: string): Promise<Page> {
  const cookie = await one.logIn(viewer)
  const context = await browser.createBrowserContext()
  for (const pair of cookie.split('; ')) {
    const [name = '', value = ''] = pair.split(/=(.*)/s)
    await context.setCookie({ name, value, domain: '127.0.0.1', path: '/' })
  }
  return context.newPage()
}

const lists = () => api.requests.filter(({ path }) => path.includes('/virtualmcpservers'))

test('62: a page appears before a slow API server has answered, and fills in by itself', async () => {
  const page = await openTab('slow')
  const release = api.hold()
  await page.goto(`${one.url}/workloads`)
  assert.match(await page.$eval('h1', (title) => title.textContent ?? ''), 'Still asking')
  assert.not.match((await page.evaluate('document.body.innerText')) as string, '1970')
  await page.evaluate('window.stays = true')
  release()
  await page.waitForFunction('document.querySelector("h1").textContent === "Workloads"', { timeout: 60_000 })
  assert.is(await page.evaluate('window.stays'), true)
  assert.match(await page.title(), 'Workloads')
  await page.browserContext().close()
})

test('while the API server is slow, a page shows earlier facts and marks them as old', async () => {
  using clock = stoppedClock()
  const cookie = await one.logIn('patient')
  await one.get('/workloads', cookie)
  clock.pass(11_000)
  const release = api.hold()
  const page = await (await one.get('/workloads', cookie)).text()
  assert.match(page, /These facts are of .* UTC: the API server is slow to answer/)
  assert.match(page, 'href="/ns/team-a/vmcp/tools"')
  release()
  assert.not.match(await (await one.get('/workloads', cookie)).text(), 'These facts are of')
})

test('a viewer who has lost all rights sees nothing that was read before', async () => {
  using clock = stoppedClock()
  const cookie = await one.logIn('leaver')
  const view = async () =>
    (await one.get('/ns/team-a/vmcp/tools', cookie, { accept: 'application/vnd.portico.view+json' })).status
  assert.is(await view(), 200)
  api.reach = () => []
  clock.pass(11_000)
  assert.is(await view(), 404)
  api.reach = () => undefined
  clock.pass(31_000)
  assert.is(await view(), 200)
  // Now the viewer may not even ask for their own rights.
  api.reach = () => []
  api.isMute = true
  clock.pass(31_000)
  for (let times = 0; times < 2; times++) {
    assert.is(await view(), 403)
    assert.not.match(await (await one.get('/workloads', cookie)).text(), 'vmcp/tools')
  }
  api.isMute = false
  api.reach = () => undefined
})

test('63: while the API server is down, pages show the last facts marked as old, and JSON is 503', async () => {
  using clock = stoppedClock()
  const cookie = await one.logIn('away')
  const text = async () => (await one.get('/workloads', cookie)).text()
  assert.not.match(await text(), 'These facts are of')
  clock.pass(11_000)
  for (const status of [0, 500, 503]) {
    api.instead = { status }
    const page = await one.get('/workloads', cookie)
    assert.is(page.status, 200)
    const html = await page.text()
    assert.match(html, /These facts are of \d\d:\d\d:\d\d UTC: the API server/)
    assert.match(html, 'href="/ns/team-a/vmcp/tools"')
    const json = await one.get('/workloads', cookie, { accept: 'application/json' })
    assert.is(json.status, 503)
    assert.match(json.headers.get('retry-after') ?? '', /^\d+$/)
    assert.is(((await json.json()) as { error: string }).error, 'cluster_unavailable')
  }
  const stranger = await one.logIn('away-from-the-start')
  const never = await one.get('/workloads', stranger)
  assert.is(never.status, 503)
  assert.match(await never.text(), 'The cluster can’t be reached')
  api.instead = undefined
  assert.not.match(await text(), 'These facts are of')
})

test('64: an API server that sends Retry-After is left alone for that time', async () => {
  using clock = stoppedClock()
  const cookie = await one.logIn('full')
  await one.get('/', cookie)
  clock.pass(11_000)
  api.instead = { status: 429, headers: { 'retry-after': '30' } }
  assert.match(await (await one.get('/', cookie)).text(), 'These facts are of')
  const before = lists().length
  api.instead = undefined
  for (const passed of [1_000, 15_000, 13_000]) {
    clock.pass(passed)
    const json = await one.get('/', cookie, { accept: 'application/json' })
    assert.is(json.status, 503)
    const seconds = Number(json.headers.get('retry-after'))
    assert.ok(seconds >= 1 && seconds <= 30, String(seconds))
    assert.match(await (await one.get('/', cookie)).text(), 'asks to wait')
  }
  assert.is(lists().length, before, 'nothing was requested meanwhile')
  clock.pass(2_000)
  assert.is((await one.get('/', cookie, { accept: 'application/json' })).status, 200)
  assert.ok(lists().length > before)
})

/** Advances a page's clock by a minute and returns the number of requests from its script; Chromium fetches icons late. */
async function requestsInAMinute(page: Page): Promise<number> {
  let count = 0
  page.on('request', (request) => {
    if (request.resourceType() === 'fetch') count++
  })
  const devtools = await page.createCDPSession()
  const over = new Promise((resolve) => devtools.once('Emulation.virtualTimeBudgetExpired', resolve))
  await devtools.send('Emulation.setVirtualTimePolicy', { policy: 'pauseIfNetworkFetchesPending', budget: 60_000 })
  await over
  return count
}

test('69: a hidden tab sends no requests, and a visible one sends them again', async () => {
  const page = await openTab('hidden')
  await page.goto(`${one.url}/workloads`)
  const hide = (state: string) =>
    page.evaluate(`Object.defineProperty(document, 'visibilityState', {value: '${state}', configurable: true})
      document.dispatchEvent(new Event('visibilitychange'))`)
  await hide('hidden')
  assert.is(await requestsInAMinute(page), 0)
  await hide('visible')
  const seen = await requestsInAMinute(page)
  assert.ok(seen >= 4 && seen <= 8, String(seen))
  await page.browserContext().close()
})

test('51: addresses in an object lead nowhere', async () => {
  const requested: string[] = []
  const trap = createServer((request, response) => {
    requested.push(request.url ?? '')
    response.end('{}')
  })
  await new Promise<void>((resolve) => trap.listen(0, '127.0.0.1', resolve))
  const there = `http://127.0.0.1:${(trap.address() as AddressInfo).port}`
  const before = api.objects
  try {
    const annotations = { 'portico.dev/registry-url': there, 'portico.dev/local-port': new URL(there).port }
    const metadata = (name: string) => ({ name, namespace: 'team-a', uid: name, annotations })
    const status = { url: there, externalUrl: there, conditions: [] }
    api.objects = [
      ...before,
      object('VirtualMCPServer', 'lure', {
        metadata: metadata('lure'),
        spec: { groupRef: { name: 'all' }, hostnames: ['127.0.0.1'], externalUrl: there, resourceUrl: there },
        status,
      }),
      object('MCPRemoteProxy', 'far', { metadata: metadata('far'), spec: { remoteUrl: there }, status }),
      object('MCPRegistry', 'catalog', { metadata: metadata('catalog'), spec: {}, status }),
    ]
    const cookie = await one.logIn('mallory')
    const paths = ['/', '/workloads', '/map', '/access', '/changes', '/usage', '/catalog']
    for (const object of ['vmcp/lure', 'mcprp/far'])
      for (const part of ['', '/tools', '/access', '/map', '/changes', '/usage', '/connect', '/yaml', '/log'])
        paths.push(`/ns/team-a/${object}${part}`)
    const answers = await Promise.all(paths.map((path) => one.get(path, cookie)))
    assert.equal(
      answers.filter(({ status: is }) => is !== 200).map(({ url, status: is }) => `${url} ${is}`),
      [],
    )
    assert.match(await (await one.get('/ns/team-a/vmcp/lure/connect', cookie)).text(), there)
    assert.equal(requested, [])
  } finally {
    api.objects = before
    trap.closeAllConnections()
    await new Promise((resolve) => trap.close(resolve))
  }
})

test('61: the cluster’s token goes to the API server alone, and into no page', async () => {
  const requests: string[] = []
  const others = createServer((request, response) => {
    requests.push(JSON.stringify([request.method, request.url, request.rawHeaders]))
    request.resume()
    response.end(JSON.stringify({ registries: [{ name: 'main' }] }))
  })
  await new Promise<void>((resolve) => others.listen(0, '127.0.0.1', resolve))
  const there = `http://127.0.0.1:${(others.address() as AddressInfo).port}`
  const id = (kind: string, name: string) => ({ kind, namespace: 'team-a', name })
  const served = [id('VirtualMCPServer', 'tools'), id('MCPRegistry', 'catalog')]
  const objects = served.map(({ kind, name }) => ({ object: object(kind, name, { spec: {} }), file: 'all.yaml' }))
  const endpoints = () => served.map((one) => ({ ...one, url: there, admin: there }))
  const places = machinePlaces({ objects: () => objects, endpoints, auditLines: () => [] }, 'team-a')
  const token = 'token-of-the-cluster'
  const sessions = {
    ...{ isLocal: false, loginPath: '/login', formKey: Buffer.alloc(32), inMemory: 0 },
    find: async () => ({ id: 's', viewer: { id: 'ada', name: 'ada', token }, canLogOut: true }),
    routes() {
      // The viewer is logged in.
    },
  } as unknown as Sessions
  const origin = 'http://127.0.0.1:4480'
  const app = consoleApp({ places, sessions, names: new Set(), origin, log: pino({ level: 'silent' }) })
  try {
    const paths = ['/', '/workloads', '/map', '/access', '/changes', '/usage', '/catalog', '/catalog/main']
    for (const part of ['', '/tools', '/access', '/map', '/changes', '/usage', '/connect', '/yaml', '/log'])
      paths.push(`/ns/team-a/vmcp/tools${part}`)
    for (const path of paths)
      for (const accept of ['text/html', 'application/json']) {
        const answer = await app.request(origin + path, { headers: { host: '127.0.0.1:4480', accept } })
        assert.is(answer.status, 200, path)
        assert.not.match(await answer.text(), token, path)
      }
    for (const path of ['/status', '/definitions', '/usage', '/mcp', '/registry/main'])
      assert.ok(
        requests.some((one) => one.includes(`"${path}`)),
        `${path} in ${requests}`,
      )
    assert.equal(
      requests.filter((one) => one.includes(token)),
      [],
    )
  } finally {
    others.closeAllConnections()
    await new Promise((resolve) => others.close(resolve))
  }
})

test.run()
