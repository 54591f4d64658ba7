import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { runInSlices } from '../../../../dataplane/gateway/limits/slices.ts'
import { entryText, entryTexts } from '../../../../dataplane/gateway/mcp/skills.ts'
import { eventually } from '../../../support/eventually.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { answer, type RawRequest, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'
import { type SkillsServer, skillText, startSkillsServer } from '../../../support/servers/skills-server.ts'

/** Tests servers whose lists of skills violate the extension. */

const DIGEST = `sha256:${'a'.repeat(64)}`
const file = (uri: string, more: object = {}) => ({ uri, digest: DIGEST, size: 1, ...more })

/** Returns a valid entry with changes. */
const skill = (name: string, more: object = {}): object => ({
  uri: `skill://${name}/SKILL.md`,
  frontmatter: { name, description: 'd' },
  resources: [file(`skill://${name}/SKILL.md`)],
  ...more,
})

const capabilities = {
  tools: {},
  resources: { subscribe: true },
  extensions: { 'io.modelcontextprotocol/skills': { directoryRead: true } },
}

/** Starts a modern server whose answers to these methods are set by the test. */
const startServing = (
  serve: (request: RawRequest) => object | undefined,
  call?: (request: RawRequest) => string,
): Promise<RawServer> =>
  startRawServer({
    era: 'modern',
    tools: [tool('t')],
    call: (request) => answer(request, call?.(request) ?? '{"resultType":"complete","content":[]}'),
    before(request, res) {
      const { method } = request.message
      const result =
        method === 'server/discover'
          ? { supportedVersions: ['2026-07-28'], capabilities }
          : (serve(request) ?? usual[method ?? ''])
      if (result === undefined) return false
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(
        answer(request, JSON.stringify({ resultType: 'complete', ttlMs: 3_600_000, cacheScope: 'public', ...result })),
      )
      return true
    },
  })

const usual: Readonly<Record<string, object>> = {
  'resources/list': { resources: [] },
  'resources/templates/list': { resourceTemplates: [] },
}

let good: SkillsServer
test.before(async () => {
  good = await startSkillsServer({ files: { 'good/SKILL.md': skillText('good') } })
})
test.after(() => good.close())

const startBesideGood = (url: string, name = 'bad') =>
  startGateway({
    backends: [
      { name, url },
      { name: 'good', url: good.url },
    ],
  })

const listSkills = async (url: string): Promise<{ uri: string; _meta: object }[]> =>
  (await postModern(url, 'skills/list')).json.result['skills'] as unknown as { uri: string; _meta: object }[]

test('each entry that breaks a rule is left out, by name; the others are shown', async () => {
  const many = Array.from({ length: 513 }, (_, index) => file(`skill://many/${index || 'SKILL.md'}`))
  const deep = JSON.parse(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`) as object
  const broken: Readonly<Record<string, object>> = {
    'resources must be a list': skill('none', { resources: undefined }),
    'a digest must be': skill('capitals', {
      resources: [file('skill://capitals/SKILL.md', { digest: DIGEST.toUpperCase() })],
    }),
    'in the folder of the skill': skill('outside', {
      resources: [file('skill://outside/SKILL.md'), file('skill://elsewhere/x.md')],
    }),
    'more than 512 files': skill('many', { resources: many }),
    'the name of its folder': skill('folder', { frontmatter: { name: 'other', description: 'd' } }),
    'holds a uri twice': skill('twice', {
      resources: [file('skill://twice/SKILL.md'), file('skill://twice/SKILL.md')],
    }),
    'must hold its SKILL.md': skill('unlisted', { resources: [file('skill://unlisted/x.md')] }),
    'larger than 16 MiB': skill('large', { resources: [file('skill://large/SKILL.md', { size: 17 * 1024 * 1024 })] }),
    'nested deeper': skill('deep', { frontmatter: { name: 'deep', description: 'd', deep } }),
    'larger than 64 KiB': skill('long', { frontmatter: { name: 'long', description: 'd', x: 'x'.repeat(70_000) } }),
    'small letters, digits': skill('a--b'),
    '1 to 1024 characters': skill('mute', { frontmatter: { name: 'mute', description: '' } }),
    'the canonical one': { ...skill('dots'), uri: 'skill://x/../dots/SKILL.md' },
    'an earlier skill has its uri': skill('fine', { frontmatter: { name: 'fine', description: 'another' } }),
    'frontmatter must be an object': skill('text', { frontmatter: 'x' }),
    '_meta must be an object': skill('meta', { _meta: [] }),
    'without a uri': { frontmatter: {} },
  }
  const meta = { 'x.example/a': 1, 'portico.dev/backend': 'good', 'portico.dev/other': 1 }
  const odd = [null, 7, 'x', [], true]
  const bad = await startServing(({ message }) =>
    message.method === 'skills/list'
      ? {
          skills: [
            skill('fine', { _meta: meta, more: 1 }),
            ...Object.values(broken),
            ...odd,
            skill('open', { resources: 'dynamic' }),
          ],
        }
      : undefined,
  )
  const gateway = await startBesideGood(bad.url)
  const skills = await listSkills(gateway.url)
  assert.equal(skills.map(({ uri }) => uri).sort(), [
    'skill://bad/fine/SKILL.md',
    'skill://bad/open/SKILL.md',
    'skill://good/good/SKILL.md',
  ])
  assert.equal(skills.find(({ uri }) => uri.includes('fine'))?._meta, {
    'x.example/a': 1,
    'portico.dev/backend': 'bad',
  })
  const { problems } = await gateway.status()
  const texts = problems.filter(({ code }) => code === 'SkillInvalid').map(({ message }) => message)
  for (const rule of Object.keys(broken))
    assert.ok(
      texts.some((text) => text.startsWith('bad: ') && text.includes(rule)),
      rule,
    )
  await gateway.close()
  await bad.close()
})

test('an endless list is read for 50 pages, and the others are listed', async () => {
  let page = 0
  const bad = await startServing(({ message }) =>
    message.method === 'skills/list' ? { skills: [skill(`s${page}`)], nextCursor: `c${++page}` } : undefined,
  )
  const gateway = await startBesideGood(bad.url)
  const skills = await listSkills(gateway.url)
  assert.is(bad.calls('skills/list').length, 50)
  assert.is(skills.length, 51)
  const { problems } = await gateway.status()
  assert.equal(
    problems.filter(({ code }) => code === 'SkillsTruncated').map(({ message }) => message.split(':')[0]),
    ['bad'],
  )
  await gateway.close()
  await bad.close()
})

test('children outside of the directory, or of another scheme, are not shown', async () => {
  const child = (uri: string) => ({ uri, name: 'n' })
  const bad = await startServing(({ message }) => {
    if (message.method === 'skills/list') return { skills: [skill('x')] }
    if (message.method !== 'resources/directory/read') return undefined
    const uris = [
      'skill://x/SKILL.md',
      'skill://y/z.md',
      'skill://x/a/b.md',
      'https://x/SKILL.md',
      'skill://x/',
      'skill://x/..',
      'skill://x',
      'skill://x/%61',
    ]
    return { resources: [...uris.map(child), null, 7, { name: 'n' }], nextCursor: 'more' }
  })
  const gateway = await startBesideGood(bad.url)
  const { result } = (await postModern(gateway.url, 'resources/directory/read', { uri: 'skill://bad/x', cursor: 'c' }))
    .json
  assert.equal(result, {
    resultType: 'complete',
    ttlMs: 0,
    cacheScope: 'private',
    resources: [{ uri: 'skill://bad/x/SKILL.md', name: 'n' }],
    nextCursor: 'more',
  } as unknown as typeof result)
  assert.is(bad.calls('resources/directory/read')[0]?.message.params?.['cursor'], 'c')
  await gateway.close()
  await bad.close()
})

test('a server’s caching hints are not passed on', async () => {
  const text = 'x'.repeat(200_000)
  const bad = await startServing(({ message: { method, params } }) => {
    if (method === 'skills/list') return { skills: [skill('x')] }
    if (method === 'skills/get') return { skill: skill('x', { _meta: { 'portico.dev/backend': 'good' } }) }
    if (method === 'resources/read') return { contents: [{ uri: params?.['uri'], text, ttlMs: 5 }] }
    return undefined
  })
  const gateway = await startBesideGood(bad.url)
  const uri = 'skill://bad/x/SKILL.md'
  for (const method of ['skills/list', 'skills/get', 'resources/read']) {
    const { result } = (await postModern(gateway.url, method, { uri })).json
    assert.equal([result['ttlMs'], result['cacheScope']], [0, 'private'], method)
    if (method === 'resources/read')
      assert.equal(result.contents, [{ uri, text, ttlMs: 5 }] as unknown as typeof result.contents)
  }
  await gateway.close()
  await bad.close()
})

test('reading an entry that breaks a rule or belongs to another skill is an error of the server', async () => {
  let answer: unknown
  const bad = await startServing(({ message: { method } }) => {
    if (method === 'skills/list') return { skills: [] }
    return method === 'skills/get' ? { skill: answer } : undefined
  })
  const gateway = await startBesideGood(bad.url)
  for (answer of [skill('y'), skill('x', { resources: [] }), null, [], 'x', { uri: 7 }]) {
    const { error } = (await postModern(gateway.url, 'skills/get', { uri: 'skill://bad/x/SKILL.md' })).json
    assert.is(error?.code, -32603, JSON.stringify(answer))
  }
  answer = skill('x')
  assert.ok((await postModern(gateway.url, 'skills/get', { uri: 'skill://bad/x/SKILL.md' })).json.result)
  for (const uri of [7, null, {}, [], ''])
    assert.is((await postModern(gateway.url, 'skills/get', { uri })).json.error.code, -32602, JSON.stringify(uri))
  await gateway.close()
  await bad.close()
})

test('links in results have the listed URIs, and no server can name another one’s skills', async () => {
  const bad = await startServing(
    ({ message }) =>
      message.method === 'skills/list'
        ? { skills: [skill('x')] }
        : message.method === 'resources/list'
          ? { resources: [{ uri: 'skill://good/good/SKILL.md', name: 'n' }] }
          : undefined,
    () =>
      `{"resultType":"complete","content":[{"type":"resource_link","name":"l","uri":"skill://x/SKILL.md"},{"type":"resource_link","name":"l","\\u0075ri":"skill://good/good/SKILL.md"}]}`,
  )
  const gateway = await startBesideGood(bad.url)
  const { content } = (await postModern(gateway.url, 'tools/call', { name: 'bad_t', arguments: {} })).json.result
  assert.equal(
    (content as unknown as { uri: string }[]).map(({ uri }) => uri),
    ['skill://bad/x/SKILL.md', 'skill://bad/good/good/SKILL.md'],
  )
  const resources = (await postModern(gateway.url, 'resources/list')).json.result.resources as unknown as {
    uri: string
  }[]
  assert.equal(resources.map(({ uri }) => uri).sort(), ['skill://bad/good/good/SKILL.md', 'skill://good/good/SKILL.md'])
  const plain = await startRawServer({
    era: 'legacy',
    tools: [tool('t', '"_meta":{"ui":{"resourceUri":"skill://good/good/SKILL.md"}}')],
    call: () => undefined,
  })
  const hijack = await startGateway({
    backends: [
      { name: 'plain', url: plain.url },
      { name: 'good', url: good.url },
    ],
  })
  const read = (await postModern(hijack.url, 'resources/read', { uri: 'skill://good/good/SKILL.md' })).json
  assert.match(read.result.contents[0].text as string, 'name: good')
  await Promise.all([hijack, plain, gateway, bad].map((one) => one.close()))
})

test('a subscription gets updates under the listed URI', async () => {
  const own = await startSkillsServer({ files: { 'x/SKILL.md': skillText('x') }, eras: 'sessions' })
  const gateway = await startGateway({ backends: [{ name: 'own', url: own.url }] })
  const session = await openSession(gateway.url)
  const stream = await fetch(gateway.url, { headers: { ...session, accept: 'text/event-stream' } })
  const subscribed = await post(gateway.url, rpc('resources/subscribe', { uri: 'skill://own/x/SKILL.md' }), session)
  assert.equal(subscribed.json.result, {} as typeof subscribed.json.result)
  await eventually('the server has the subscription', () =>
    own.seen.some(({ method, uri }) => method === 'resources/subscribe' && uri === 'skill://x/SKILL.md'),
  )
  let text = ''
  const reading = (async () => {
    for await (const chunk of stream.body as unknown as AsyncIterable<Uint8Array>) {
      text += Buffer.from(chunk).toString()
      if (text.includes('resources/updated')) break
    }
  })()
  await own.update('skill://x/SKILL.md')
  await reading
  assert.match(text, '"uri":"skill://own/x/SKILL.md"')
  await gateway.close()
  await own.close()
})

test('the texts of 10,000 skills are built once, in steps between which others are served', async () => {
  const digest = `sha256:${'0'.repeat(64)}`
  const entries = Array.from({ length: 10_000 }, (_, at) => {
    const root = `skill://s${at}`
    const resources = ['SKILL.md', 'a.md', 'b.md'].map((file) => ({ uri: `${root}/${file}`, digest, size: 1 }))
    const frontmatter = { name: `s${at}`, description: 'd'.repeat(200) }
    return { key: `${root}/SKILL.md`, text: JSON.stringify({ uri: `${root}/SKILL.md`, frontmatter, resources }) }
  })
  let turns = 0
  const ticking = setInterval(() => turns++)
  await runInSlices(entryTexts(entries, 'a'))
  clearInterval(ticking)
  assert.ok(turns > 3, `${turns}`)
  let lookups = 0
  const rename = (uri: string) => {
    lookups++
    return uri.replace('skill://', 'skill://a/')
  }
  const first = entries[0] as { key: string; text: string }
  const text = entryText(first, 'a', rename)
  assert.is(lookups, 1, 'its own URI alone')
  const again = entryText({ ...first }, 'a', rename)
  assert.is(text, again)
  assert.is(JSON.parse(text).resources[2].uri, 'skill://a/s0/b.md')
  // Another backend name gives another text.
  const other = entryText(first, 'b', (uri) => uri.replace('skill://', 'skill://b/'))
  assert.is(JSON.parse(other).resources[2].uri, 'skill://b/s0/b.md')
})

test.run()
