import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { startRawServer } from '../../../support/servers/raw-server.ts'
import { type SkillsServer, skillText, startSkillsServer } from '../../../support/servers/skills-server.ts'

/** Tests skills (SEP-2640) of several SDK servers through a gateway and through a proxy. */

const EXTENSION = 'io.modelcontextprotocol/skills'

interface Skill {
  readonly uri: string
  readonly frontmatter: { readonly name: string }
  readonly resources: readonly { readonly uri: string; readonly digest: string; readonly size: number }[]
  readonly _meta?: Readonly<Record<string, unknown>>
}

const buildFiles = (server: string): Record<string, string> => ({
  'refunds/SKILL.md': skillText('refunds', `Refunds of ${server}.`),
  'refunds/references/RULES.md': `rules of ${server}`,
  [`only-${server}/SKILL.md`]: skillText(`only-${server}`),
  [`only-${server}/references/X.md`]: `x of ${server}`,
})

let a: SkillsServer
let b: SkillsServer
let plain: Awaited<ReturnType<typeof startRawServer>>
let gateway: GatewayUnderTest
const backends = () => [
  { name: 'a', url: a.url },
  { name: 'b', url: b.url },
  { name: 'plain', url: plain.url },
]

test.before(async () => {
  a = await startSkillsServer({ files: { ...buildFiles('a'), 'b/x/SKILL.md': skillText('x') } })
  b = await startSkillsServer({ files: buildFiles('b'), eras: 'sessions' })
  plain = await startRawServer({ era: 'legacy', call: () => undefined })
  gateway = await startGateway({ backends: backends() })
})

test.after(async () => {
  await gateway.close()
  await Promise.all([a, b, plain].map((server) => server.close()))
})

const eras = ['modern', 'legacy'] as const

/** Returns a function that sends requests in an era. */
async function asker(era: (typeof eras)[number], url = gateway.url) {
  if (era === 'modern') return (method: string, params: Record<string, unknown> = {}) => postModern(url, method, params)
  const session = await openSession(url)
  return (method: string, params: object = {}) => post(url, rpc(method, params), session)
}

async function skillsAt(url = gateway.url): Promise<readonly Skill[]> {
  const { json } = await postModern(url, 'skills/list')
  return (json.result as unknown as { skills: readonly Skill[] }).skills
}

const urisIn = (skills: readonly Skill[]): string[] => skills.map(({ uri }) => uri)

test('the extension is declared if a backend has it; otherwise its methods are unknown', async () => {
  const { json } = await postModern(gateway.url, 'server/discover')
  assert.equal((json.result.capabilities['extensions'] as Record<string, object>)[EXTENSION], { directoryRead: true })
  const without = await startGateway({ backends: [{ name: 'plain', url: plain.url }] })
  const found = await postModern(without.url, 'server/discover')
  assert.is(found.json.result.capabilities['extensions'], undefined)
  for (const method of ['skills/list', 'skills/get', 'resources/directory/read']) {
    const refused = await postModern(without.url, method, { uri: 'skill://a/refunds/SKILL.md' })
    assert.is(refused.status, 404, method)
    assert.is(refused.json.error.code, -32601, method)
  }
  await without.close()
})

for (const era of eras) {
  test(`${era}: skills of one name are listed and read under the names of their servers`, async () => {
    const ask = await asker(era)
    const { result } = (await ask('skills/list')).json
    const skills = (result as unknown as { skills: Skill[] }).skills
    assert.equal(urisIn(skills).sort(), [
      'skill://a/b/x/SKILL.md',
      'skill://a/only-a/SKILL.md',
      'skill://a/refunds/SKILL.md',
      'skill://b/only-b/SKILL.md',
      'skill://b/refunds/SKILL.md',
    ])
    assert.equal(
      [result['resultType'], result['ttlMs'], result['cacheScope']].filter(Boolean),
      era === 'modern' ? ['complete', 'private'] : [],
    )
    for (const server of ['a', 'b']) {
      const uri = `skill://${server}/refunds/references/RULES.md`
      const [content] = (await ask('resources/read', { uri })).json.result.contents
      assert.equal([content.uri, content.text], [uri, `rules of ${server}`])
    }
  })

  test(`${era}: a file that is not in resources/list is read from its own server alone`, async () => {
    const ask = await asker(era)
    a.seen.length = 0
    const uri = 'skill://b/only-b/references/X.md'
    assert.is((await ask('resources/read', { uri })).json.result.contents[0].text, 'x of b')
    assert.equal(
      a.seen.filter(({ method }) => method === 'resources/read'),
      [],
    )
  })

  test(`${era}: a skill is read by its URI, but not by unknown URIs or those of other servers`, async () => {
    const ask = await asker(era)
    const { json } = await ask('skills/get', { uri: 'skill://b/refunds/SKILL.md' })
    const skill = json.result['skill'] as unknown as Skill
    assert.is(skill.uri, 'skill://b/refunds/SKILL.md')
    assert.equal(skill._meta, { 'portico.dev/backend': 'b' })
    assert.equal(
      skill,
      (await skillsAt()).find(({ uri }) => uri === skill.uri),
    )
    for (const uri of [
      'skill://b/nothing/SKILL.md',
      'skill://b/only-a/SKILL.md',
      'skill://zzz/refunds/SKILL.md',
      'skill://refunds/SKILL.md',
    ])
      assert.is((await ask('skills/get', { uri })).json.error.code, -32602, uri)
  })

  test(`${era}: a URI in another spelling is refused, and no server is asked`, async () => {
    const ask = await asker(era)
    for (const server of [a, b]) server.seen.length = 0
    for (const uri of [
      'skill://b/%2e%2e/a/refunds/SKILL.md',
      'SKILL://b/refunds/SKILL.md',
      'skill://b//refunds/SKILL.md',
      'skill://b/./refunds/SKILL.md',
      'skill://b/x/../refunds/SKILL.md',
      'skill://b/%72efunds/SKILL.md',
      'skill://b/refunds%2FSKILL.md',
      'skill://b/refunds/SKILL.md?x',
      'skill://b/refunds/SKILL.md#x',
      'skill://b/refunds/SK\tILL.md',
      'skill://b/refunds/SKILL.md/',
      'skill:b/refunds/SKILL.md',
      'skill:///b/refunds/SKILL.md',
      'skill://b',
    ])
      for (const method of ['resources/read', 'skills/get', 'resources/directory/read']) {
        const { error } = (await ask(method, { uri })).json
        assert.ok([-32602, -32002].includes(error?.code ?? 0), `${method} ${uri}: ${JSON.stringify(error)}`)
      }
    assert.equal(
      [...a.seen, ...b.seen].filter(({ uri }) => uri !== undefined),
      [],
    )
  })

  test(`${era}: directories list their direct children under the listed URIs`, async () => {
    const ask = await asker(era)
    const { json } = await ask('resources/directory/read', { uri: 'skill://b/refunds' })
    const children = json.result['resources'] as unknown as { uri: string; mimeType?: string }[]
    assert.equal(children.map(({ uri }) => uri).sort(), ['skill://b/refunds/SKILL.md', 'skill://b/refunds/references'])
    assert.is(json.result['ttlMs'], era === 'modern' ? 0 : undefined)
    for (const uri of ['skill://b/refunds/SKILL.md', 'skill://b/nothing', 'skill://plain/x'])
      assert.is((await ask('resources/directory/read', { uri })).json.error.code, -32602, uri)
  })

  test(`${era}: the SDK's client verifies every file of every skill`, async () => {
    const mode = era === 'modern' ? { pin: '2026-07-28' } : era
    const client = new Client({ name: 'host', version: '1' }, { versionNegotiation: { mode } } as ConstructorParameters<
      typeof Client
    >[1])
    await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
    const skills = new SkillsClient(client)
    const { skills: listed } = await skills.list()
    assert.is(listed.length, 5)
    let files = 0
    for (const skill of listed) {
      for (const { uri } of skill.resources === 'dynamic' ? [] : skill.resources) {
        assert.is((await skills.read(skill, uri)).verified, true, uri)
        files++
      }
      await skills.get(skill.uri)
    }
    assert.is(files, 9)
    await client.close()
  })
}

test('a list of skills reads no file', async () => {
  for (const server of [a, b]) server.seen.length = 0
  await skillsAt()
  assert.equal(
    [...a.seen, ...b.seen].filter(({ method }) => method === 'resources/read'),
    [],
  )
})

test('resources, templates and skills name each file alike', async () => {
  const ask = await asker('modern')
  const skills = new Set(urisIn(await skillsAt()))
  const resources = (await ask('resources/list')).json.result.resources.map(({ uri }: { uri: string }) => uri)
  const manifests = resources.filter((uri) => uri.endsWith('/SKILL.md'))
  assert.equal(new Set(manifests), skills)
  const templates = (await ask('resources/templates/list')).json.result['resourceTemplates'] as unknown as {
    uriTemplate: string
  }[]
  assert.equal(
    templates.map(({ uriTemplate }) => uriTemplate),
    ['skill://a/{+path}', 'skill://b/{+path}'],
  )
})

test('a file whose path begins with another server’s name is read from its own server', async () => {
  const { json } = await postModern(gateway.url, 'resources/read', { uri: 'skill://a/b/x/SKILL.md' })
  assert.match(json.result.contents[0].text as string, 'name: x')
  assert.is((await postModern(gateway.url, 'resources/read', { uri: 'skill://b/x/SKILL.md' })).json.error.code, -32602)
})

test('a proxy leaves the URIs as they are', async () => {
  const proxy = await startGateway({ role: 'proxy', backends: [{ name: 'a', url: a.url }] })
  const skills = await skillsAt(proxy.url)
  assert.ok(urisIn(skills).includes('skill://refunds/SKILL.md'))
  assert.is(skills[0]?._meta, undefined)
  for (const era of eras) {
    const ask = await asker(era, proxy.url)
    const uri = 'skill://refunds/references/RULES.md'
    assert.is((await ask('resources/read', { uri })).json.result.contents[0].text, 'rules of a')
    assert.is(
      ((await ask('skills/get', { uri: 'skill://refunds/SKILL.md' })).json.result['skill'] as unknown as Skill).uri,
      'skill://refunds/SKILL.md',
    )
    assert.ok((await ask('resources/read', { uri: 'skill://refunds/%53KILL.md' })).json.error)
  }
  await proxy.close()
})

test('a gateway before a gateway adds its own segment', async () => {
  const outer = await startGateway({ backends: [{ name: 'inner', url: gateway.url }] })
  const skills = await skillsAt(outer.url)
  const skill = skills.find(({ uri }) => uri === 'skill://inner/b/refunds/SKILL.md')
  assert.equal(skill?._meta, { 'portico.dev/backend': 'inner' }, 'the inner gateway’s own key is replaced')
  const { json } = await postModern(outer.url, 'resources/read', { uri: 'skill://inner/b/refunds/references/RULES.md' })
  assert.is(json.result.contents[0].text, 'rules of b')
  await outer.close()
})

test('a filter keeps one skill; the others are not listed and can’t be read', async () => {
  const filtered = await startGateway({
    backends: backends(),
    aggregation: {
      excludeAllTools: true,
      skills: [
        { workload: 'a', filter: ['refunds'] },
        { workload: 'b', excludeAll: true },
      ],
    },
  })
  assert.equal(urisIn(await skillsAt(filtered.url)), ['skill://a/refunds/SKILL.md'])
  for (const era of eras) {
    const ask = await asker(era, filtered.url)
    const { resources } = (await ask('resources/list')).json.result
    assert.equal(
      resources.map(({ uri }: { uri: string }) => uri),
      ['skill://a/refunds/SKILL.md'],
    )
    assert.is(
      (await ask('resources/read', { uri: 'skill://a/refunds/references/RULES.md' })).json.result.contents[0].text,
      'rules of a',
    )
    for (const uri of [
      'skill://a/only-a/SKILL.md',
      'skill://a/only-a/references/X.md',
      'skill://b/refunds/SKILL.md',
      'skill://a/nowhere/x.md',
    ]) {
      assert.ok((await ask('resources/read', { uri })).json.error, uri)
      assert.is((await ask('skills/get', { uri })).json.error.code, -32602, uri)
    }
    assert.ok((await ask('resources/directory/read', { uri: 'skill://a/only-a' })).json.error)
  }
  await filtered.close()
})

test('policies decide by read_resource of a file and of its SKILL.md', async () => {
  const policed = await startGateway({
    backends: backends(),
    authz: {
      policies: [
        'permit(principal, action, resource);',
        'forbid(principal, action == Action::"read_resource", resource == Resource::"skill://b/refunds/SKILL.md");',
        'forbid(principal, action == Action::"read_resource", resource == Resource::"skill://a/refunds/references/RULES.md");',
        'forbid(principal, action == Action::"read_resource", resource) when { resource has skill && resource.skill == "skill://a/only-a/SKILL.md" };',
      ],
      entitiesJson: '[]',
    },
  })
  for (const era of eras) {
    const ask = await asker(era, policed.url)
    const skills = ((await ask('skills/list')).json.result as unknown as { skills: Skill[] }).skills
    assert.equal(urisIn(skills).sort(), [
      'skill://a/b/x/SKILL.md',
      'skill://a/refunds/SKILL.md',
      'skill://b/only-b/SKILL.md',
    ])
    const { resources } = (await ask('resources/list')).json.result
    assert.equal(resources.map(({ uri }: { uri: string }) => uri).sort(), urisIn(skills).sort())
    const refused = (await ask('resources/read', { uri: 'skill://b/nothing/SKILL.md' })).json.error
    for (const uri of [
      'skill://b/refunds/SKILL.md',
      'skill://b/refunds/references/RULES.md',
      'skill://a/refunds/references/RULES.md',
      'skill://a/only-a/references/X.md',
      'skill://b/%72efunds/SKILL.md',
    ]) {
      const { status, json } = await ask('resources/read', { uri })
      assert.is(status, 403, uri)
      assert.equal({ ...json.error, data: undefined }, { ...refused, data: undefined }, uri)
    }
    assert.is((await ask('skills/get', { uri: 'skill://b/refunds/SKILL.md' })).status, 403)
    assert.ok((await ask('resources/read', { uri: 'skill://a/refunds/SKILL.md' })).json.result)
    const { result } = (await ask('resources/directory/read', { uri: 'skill://a/refunds/references' })).json
    assert.equal(result['resources'], [])
  }
  await policed.close()
})

test('a server that is down stays listed; its files are unavailable', async () => {
  const gone = await startSkillsServer({ files: buildFiles('gone') })
  const own = await startGateway({ backends: [...backends(), { name: 'gone', url: gone.url }] })
  const before = await skillsAt(own.url)
  await gone.close()
  const read = await postModern(own.url, 'resources/read', { uri: 'skill://gone/refunds/SKILL.md' })
  assert.match(read.text, 'can’t be reached')
  assert.equal(await skillsAt(own.url), before)
  const known = await postModern(own.url, 'skills/get', { uri: 'skill://gone/refunds/SKILL.md' })
  assert.equal(
    known.json.result['skill'],
    before.find(({ uri }) => uri === 'skill://gone/refunds/SKILL.md'),
  )
  assert.ok((await postModern(own.url, 'skills/get', { uri: 'skill://gone/other/SKILL.md' })).json.error)
  await own.close()
})

test('clients are notified once that skills have changed', async () => {
  const files = buildFiles('new')
  const changing = await startSkillsServer({ files })
  const replicas = await Promise.all([1, 2].map(() => startGateway({ backends: [{ name: 'c', url: changing.url }] })))
  const listeners = await Promise.all(
    replicas.map(async ({ url }) => {
      const client = new Client({ name: 'host', version: '1' }, {
        versionNegotiation: { mode: { pin: '2026-07-28' } },
      } as ConstructorParameters<typeof Client>[1])
      await client.connect(new StreamableHTTPClientTransport(new URL(url)))
      const times = { count: 0 }
      client.setNotificationHandler('notifications/resources/list_changed', () => void times.count++)
      const listening = await client.listen({ resourcesListChanged: true })
      return { client, times, listening }
    }),
  )
  await skillsAt(replicas[0]?.url)
  files['later/SKILL.md'] = skillText('later')
  await changing.reload()
  await eventually('both clients are notified', () => listeners.every(({ times }) => times.count > 0))
  for (const { url } of replicas) assert.ok(urisIn(await skillsAt(url)).includes('skill://c/later/SKILL.md'))
  for (const { times } of listeners) assert.is(times.count, 1)
  for (const { client } of listeners) await client.close()
  await Promise.all([...replicas, changing].map((one) => one.close()))
})

test.run()
