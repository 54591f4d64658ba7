/** Tests the catalog of a registry that shows each team its own entries. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { type IdentityProvider, startIdentityProvider } from '../support/network/identity-provider.ts'
import { object } from '../support/operator/standalone-run.ts'
import { registryFile, server } from '../support/registry/registry.ts'
import { OpenConsole } from './support.ts'

let idp: IdentityProvider
let one: OpenConsole
const folder = temporaryFolder()

test.before(async () => {
  idp = await startIdentityProvider()
  const source = (team: string) => {
    const path = folder.write(`${team}.json`, registryFile([server(`com.example/${team}`)]))
    return `{name: ${team}, file: {path: "${path}"}, claims: {team: ${team}}}`
  }
  const provider = `{name: corp, issuerUrl: "${idp.issuer}", audience: catalog, allowPrivateIP: true}`
  const spec = `spec:\n  sources: [${source('red')}, ${source('blue')}]\n  registries: [{name: main, sources: [red, blue]}]\n  auth: {mode: oauth, oauth: {resourceUrl: "http://127.0.0.1:1", providers: [${provider}]}, authz: {roles: {}}}\n`
  // Another MCPRegistry has a registry of the same name, and its configuration as text.
  const text = `sources: [${source('green').replace(/, claims.*/, '}')}]\nregistries: [{name: main, sources: [green]}]\nauth: {mode: anonymous}\n`
  const other = `spec:\n  configYAML: ${JSON.stringify(text)}\n`
  // A third one never runs: only its configuration is known.
  const closed = JSON.stringify(
    `registries: [{name: closed, sources: []}]\nauth: {mode: oauth, oauth: {resourceUrl: "https://registry.example", providers: [${provider}]}}\n`,
  )
  one = await OpenConsole.start(
    [
      object('MCPRegistry', 'catalog', spec),
      object('MCPRegistry', 'other', other),
      object(
        'MCPRegistry',
        'closed',
        `spec:\n  configYAML: ${closed}\n  podTemplateSpec: {spec: {hostNetwork: true}}\n`,
      ),
    ].join('---\n'),
  )
  await one.open()
})
test.after(async () => {
  await one?.[Symbol.asyncDispose]()
  await idp?.close()
  folder[Symbol.dispose]()
})

const OF = 'of=default%2Fcatalog'
const catalog = (query = '') => one.json(`/catalog/main?${OF}${query}`)

async function send(fields: Readonly<Record<string, string>>) {
  const page = await one.text(`/catalog/main?${OF}`)
  const form = /<form[^>]*method="post"[^>]*><input type="hidden" name="form" value="([^"]+)"/.exec(page)?.[1] ?? ''
  return fetch(`${one.url}/catalog/main?${OF}`, {
    method: 'POST',
    headers: { cookie: one.cookie, origin: one.url, accept: 'application/json' },
    body: new URLSearchParams({ form, ...fields }),
  })
}

test('the catalog asks for a token, and shows a team its entries with its token', async () => {
  const before = (await catalog()).facts
  assert.equal([before.needsToken, before.entries], [true, []], JSON.stringify(before))
  assert.match(await one.text(`/catalog/main?${OF}`), 'name="login"')
  const token = await idp.mint({ aud: 'catalog', team: 'red' })
  assert.is((await send({ token })).status, 200)
  const names = async () => (await catalog()).facts.entries.map(({ name }: { name: string }) => name)
  await eventually('both sources are read', async () => (await names()).length > 0)
  assert.equal(await names(), ['com.example/red'])
  assert.is((await one.get(`/catalog/main/com.example/red?${OF}`)).status, 200)
  assert.is((await one.get(`/catalog/main/com.example/blue?${OF}`)).status, 404)
  assert.not.match(await one.text(`/catalog/main?${OF}`), token)
})

test('the registry explains why an entry is shown or not', async () => {
  const why = async (name: string) => (await catalog(`&why=${encodeURIComponent(name)}`)).facts.why
  assert.is((await why('com.example/red')).visible, true)
  const blue = await why('com.example/blue')
  assert.is(blue.visible, false, JSON.stringify(blue))
  assert.ok(blue.checks.some(({ allowed }: { allowed: boolean }) => !allowed))
  assert.match(await one.text(`/catalog/main?${OF}&why=com.example%2Fblue`), 'not shown to you')
})

test('a login is offered only at the provider of the registry, and a token can be forgotten', async () => {
  const answer = await send({ login: 'yes' })
  // The provider of this test registers no clients.
  assert.is(answer.status, 403)
  assert.match(((await answer.json()) as { message: string }).message, 'Paste a token instead')
  await send({ forget: 'yes' })
  assert.is((await catalog()).facts.needsToken, true)
})

test('registries of the same name are distinct, and a token is sent to one of them only', async () => {
  const { registries } = (await one.json('/catalog')).facts
  const mains = registries.filter(({ name }: { name: string }) => name.startsWith('main'))
  assert.equal(mains, [
    { name: 'main (default/catalog)', href: '/catalog/main?of=default%2Fcatalog' },
    { name: 'main (default/other)', href: '/catalog/main?of=default%2Fother' },
  ])
  const page = await one.text(mains[1].href)
  assert.match(page, 'href="/catalog/main/com.example/green?of=default%2Fother"')
  assert.match(
    await one.text('/catalog/main/com.example/green?of=default%2Fother'),
    'href="/catalog/main?of=default%2Fother"',
  )
  assert.is((await one.get('/catalog/main?of=default%2Fnobody')).status, 404)
})

test('Connect reads a registry whose configuration is a text', async () => {
  const { facts } = await one.json('/ns/default/mcpreg/other/connect')
  assert.is(facts.login, null)
  assert.ok(facts.setups.some(({ client }: { client: string }) => client === 'Registry main'))
  const closed = await one.json('/ns/default/mcpreg/closed/connect')
  assert.is(closed.facts.login.issuer, idp.issuer, JSON.stringify(closed.facts))
  assert.is(closed.facts.login.resource, 'https://registry.example')
})

test.run()
