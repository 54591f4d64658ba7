/** Checks which data callers share who see the same lists with different credentials, and which they do not. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { noUpstreamTokens, type UpstreamTokens } from '../../../../dataplane/credentials/upstream-tokens.ts'
import { buildCatalog } from '../../../../dataplane/gateway/aggregation/catalog.ts'
import { buildPromptResourceCatalog } from '../../../../dataplane/gateway/aggregation/prompt-resource-catalog.ts'
import { Backends } from '../../../../dataplane/gateway/backends/backends.ts'
import { failurePolicy } from '../../../../dataplane/gateway/backends/health/health.ts'
import { CallerViews } from '../../../../dataplane/gateway/core/caller-views.ts'
import type { View } from '../../../../dataplane/gateway/core/view.ts'
import { eventually } from '../../../support/eventually.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { answer, OK_RESULT, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'
import { stoppedClock } from '../../../support/stopped-clock.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

/** A provider whose tokens are the names of their users. */
const upstreamTokens: UpstreamTokens = {
  ...noUpstreamTokens,
  header: ({ subject }) => Promise.resolve({ name: 'authorization', value: `Bearer ${subject}`, expiresAt: undefined }),
}

/** Shows each user the tools in `tools`, and everybody else one tool. */
function startServer(tools: ReadonlyMap<unknown, readonly string[]>): Promise<RawServer> {
  return startRawServer({
    era: 'modern',
    call: (request) => answer(request, OK_RESULT),
    before(request, res) {
      if (request.message.method !== 'tools/list') return false
      const named = tools.get(request.headers.authorization?.slice('Bearer '.length)) ?? ['common']
      const texts = named.map((name) => tool(name, '"description":"Does something."'))
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(answer(request, `{"resultType":"complete","tools":[${texts.join(',')}]}`))
      return true
    },
  })
}

/** Starts views for callers of two backends that get their tokens. */
async function startViews(tools: ReadonlyMap<unknown, readonly string[]>) {
  const servers = [await startServer(tools), await startServer(new Map())]
  const credential = { type: 'upstreamInject' as const, upstreamInject: { providerName: 'provider' } }
  const config = {
    name: 'test',
    namespace: 'default',
    role: 'gateway',
    incomingAuth: { type: 'anonymous' },
    backends: servers.map(({ url }, index) => ({ name: `b${index}`, url, credential })),
  } as GatewayConfig
  const { log } = recordLog()
  const backends = new Backends({ log, onChange: () => shared.version++, ownIssuer: { upstreamTokens } })
  const common = { directory: '.', defaultTimeout: '30s', client: { name: 'test', version: '1' } }
  const promptsAndResources = buildPromptResourceCatalog(config, [])
  const shared = {
    version: 0,
    get backends() {
      return backends.all
    },
    ...{ allListed: true, missing: [], firstLists: async () => {} },
    ...{ findBackend: (name: string) => backends.named(name), catalog: buildCatalog(config, []), promptsAndResources },
  }
  backends.follow(config.backends, common, failurePolicy(config))
  await backends.firstLists()
  const closing: Promise<void>[] = []
  const views = new CallerViews({
    host: { setup: { config, ownIssuer: { hasLogins: false } } },
    ...{ backends, shared, onChange: () => {}, busy: () => [] },
    onListed: () => {},
    onGone: (backend) => closing.push(backend.close()),
  })
  async function openView(subject: string): Promise<View> {
    const caller = {
      kind: 'authenticated' as const,
      issuer: 'issuer',
      subject,
      claims: {},
      expiresAt: Number.MAX_VALUE,
    }
    const view = views.viewFor({ caller, req: { headers: {} }, binding: views.bindingOf(caller) }) ?? shared
    await view.firstLists()
    return view
  }
  async function close(): Promise<void> {
    await Promise.all([views.close(), ...closing])
    await backends.close()
    await Promise.all(servers.map((server) => server.close()))
  }
  return { views, openView, changeAll: () => shared.version++, [Symbol.asyncDispose]: close }
}

const namesIn = ({ catalog }: View) => [...catalog.routes.keys()]
/** Returns the credential of a call along a route of this view. */
function credentialAt(view: View, name: string): string | undefined {
  const backend = view.findBackend(view.catalog.routes.get(name)?.backend ?? '')
  return backend?.headers.current().list.at(-1)
}

test('callers who see the same share catalogs and routes, and nothing private', async () => {
  await using stage = await startViews(new Map())
  const [alice, bob] = [await stage.openView('alice'), await stage.openView('bob')]
  assert.not(alice === bob)
  assert.is(alice.catalog, bob.catalog)
  assert.is(alice.promptsAndResources, bob.promptsAndResources)
  assert.is(alice.findBackend('b0')?.tools, bob.findBackend('b0')?.tools)
  assert.equal(namesIn(alice), ['b0_common', 'b1_common'])
  for (const name of namesIn(alice)) {
    assert.is(credentialAt(alice, name), 'Bearer alice')
    assert.is(credentialAt(bob, name), 'Bearer bob')
  }
})

test('a caller who sees other tools of one backend has its own catalogs', async () => {
  await using stage = await startViews(new Map([['carol', ['common', 'secret']]]))
  const [alice, carol] = [await stage.openView('alice'), await stage.openView('carol')]
  assert.equal(namesIn(carol), ['b0_common', 'b0_secret', 'b1_common'])
  assert.equal(namesIn(alice), ['b0_common', 'b1_common'])
  assert.is(carol.findBackend('b1')?.tools, alice.findBackend('b1')?.tools)
})

test('a list that changes for one caller changes for no other, and calls keep their own credentials', async () => {
  const tools = new Map<unknown, readonly string[]>()
  await using stage = await startViews(tools)
  const [alice, bob] = [await stage.openView('alice'), await stage.openView('bob')]
  const before = bob.catalog
  tools.set('alice', ['common', 'more'])
  alice.findBackend('b0')?.refreshLists()
  await eventually('the list of alice has changed', () => namesIn(alice).includes('b0_more'))
  assert.is(bob.catalog, before)
  assert.is(alice.catalog.routes.get('b0_more')?.backend, 'b0')
  assert.is(credentialAt(alice, 'b0_common'), 'Bearer alice')
  assert.is(credentialAt(bob, 'b0_common'), 'Bearer bob')
  tools.delete('alice')
  alice.findBackend('b0')?.refreshLists()
  await eventually('alice sees the same as bob', () => alice.catalog === before)
})

test('if a shared list changes, catalogs are rebuilt once for all callers who see the same', async () => {
  await using stage = await startViews(new Map())
  const [alice, bob] = [await stage.openView('alice'), await stage.openView('bob')]
  const before = alice.catalog
  stage.changeAll()
  assert.not(alice.catalog === before)
  assert.is(alice.catalog, bob.catalog)
})

test('catalogs are kept while one of their callers is known, and then dropped', async () => {
  await using stage = await startViews(new Map([['carol', ['common', 'secret']]]))
  using clock = stoppedClock()
  const ofCarol = new WeakRef((await stage.openView('carol')).catalog)
  const ofAlice = new WeakRef((await stage.openView('alice')).catalog)
  clock.pass(6 * 60_000)
  const bob = await stage.openView('bob')
  assert.is(bob.catalog, ofAlice.deref())
  // Carol and Alice have been idle for long enough.
  stage.views.sweep(Date.now())
  await eventually('the catalogs that carol alone had are gone', () => {
    collect()
    return ofCarol.deref() === undefined
  })
  assert.is(bob.catalog, ofAlice.deref())
})

test.run()
