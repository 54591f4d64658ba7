import { createHash } from 'node:crypto'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Type from 'typebox'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkGateway } from '../../../dataplane/config/check/gateway.ts'
import { type AuthzConfig, gatewayConfigSchema } from '../../../dataplane/config/gateway.ts'
import { ConfigError, type Finding, findingLine } from '../../../dataplane/config/load.ts'
import { readGateway } from '../../../dataplane/config/read/gateway.ts'
import { configParser } from '../../../dataplane/config/read/parse.ts'
import { watchConfig } from '../../../dataplane/config/watch.ts'
import { engine } from '../../../dataplane/policy/engine.ts'
import { Policies } from '../../../dataplane/policy/index.ts'

const parse = configParser(gatewayConfigSchema, checkGateway)

/** Loads a file as a starting data plane does, without watching it. */
const load = (file: string) =>
  watchConfig(file, {
    read: (text, path) => readGateway(text, path),
    onConfig: () => {},
    onRefused: () => {},
    signal: AbortSignal.abort(),
  })

const findings = (text: string): readonly string[] => {
  try {
    parse(text, 'gateway.yaml')
  } catch (error) {
    assert.instance(error, ConfigError)
    return (error as ConfigError).findings.map(findingLine)
  }
  return []
}

const good = `name: demo
namespace: default
incomingAuth: { type: anonymous }
backends:
  - name: one
    url: http://127.0.0.1:1/mcp
`

test('a file is loaded with defaults, its hash and its folder', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'portico-load-'))
  const file = join(folder, 'gateway.yaml')
  await writeFile(file, good)
  await symlink(folder, `${folder}-link`)
  const loaded = await load(join(`${folder}-link`, 'gateway.yaml'))
  assert.is(loaded.config.role, 'gateway')
  assert.is(loaded.config.backends[0]?.allowPrivateIP, true)
  assert.is(loaded.hash, `sha256:${createHash('sha256').update(good).digest('hex')}`)
  assert.is(loaded.directory, `${folder}-link`, 'relative paths lead through the link that was named')
  await rm(folder, { recursive: true })
  await rm(`${folder}-link`)
})

/** Counts the event loop turns, in which others are served, until a promise settles. */
async function turnsUntil(done: Promise<unknown>): Promise<number> {
  let turns = 0
  let isDone = false
  const end = () => {
    isDone = true
  }
  done.then(end, end)
  for (; !isDone; turns++) await new Promise((resolve) => setTimeout(resolve, 1))
  return turns
}

const range = (length: number) => Array.from({ length }, (_, index) => index)
const rule = (id: number) => `permit(principal, action, resource == Tool::"${id}") when { context.arg_a == 1 };`

test('a gateway answers requests while it reads a long configuration again', async () => {
  const inForce = parse(good)
  const long = {
    policies: { authz: { policies: range(600).map(rule) } },
    'policies in one text': { authz: { policies: [range(600).map(rule).join('\n')] } },
    entities: {
      authz: {
        policies: [rule(0)],
        entitiesJson: JSON.stringify(
          range(4_000).map((id) => ({ uid: { type: 'T', id: `${id}` }, attrs: {}, parents: [] })),
        ),
      },
    },
    workflows: {
      compositeTools: range(20).map((tool) => ({
        name: `tool_${tool}`,
        steps: range(100).map((id) => ({
          id: `s${id}`,
          type: 'tool',
          tool: 'a.b',
          arguments: { a: '{{.params.a}} {{.params.b}} {{.params.c}}' },
        })),
        parameters: { type: 'object', properties: { a: {}, b: {}, c: {} } },
      })),
    },
  }
  for (const [what, part] of Object.entries(long)) {
    const text = JSON.stringify({ ...inForce, ...part })
    assert.ok((await turnsUntil(readGateway(text, 'gateway.yaml', inForce))) > 2, what)
  }
  const yaml =
    good +
    range(5_000)
      .map((id) => `x${id}: 1\n`)
      .join('')
  const refused = readGateway(yaml, 'gateway.yaml', inForce)
  assert.ok((await turnsUntil(refused)) > 2, 'YAML')
  const error: ConfigError = await refused.then(
    () => assert.unreachable(),
    (cause) => cause,
  )
  assert.is(error.findings.length, 100)
  assert.is(findingLine(error.findings[0] as Finding), 'gateway.yaml:7: /x0: unknown field')
  const broken = readGateway(`${yaml}x0: 2\n`, 'gateway.yaml', inForce)
  assert.match(await broken.then(String, String), /^ConfigError: gateway.yaml:5007: Map keys must be unique$/)
  const fine = `${good}allowedHosts:\n${range(1_000)
    .map((id) => `- h${id}.${'x'.repeat(60)}.example.com\n`)
    .join('')}`
  const config = await readGateway(fine, 'gateway.yaml', inForce)
  assert.equal(config, parse(fine))
})

test('policies are compiled when they change, and not again when they are applied', async () => {
  const one = { ...parse(good), authz: { policies: [rule(1)] } }
  const two = { ...one, authz: { policies: [rule(2)] } }
  const { run } = engine
  let calls = 0
  const countRun: typeof run = (use) => {
    calls++
    return run.call(engine, use) as ReturnType<typeof use>
  }
  Object.assign(engine, { run: countRun })
  try {
    let inForce = await readGateway(JSON.stringify(one), 'gateway.yaml', parse(good))
    for (const next of [two, one]) {
      calls = 0
      inForce = await readGateway(JSON.stringify(next), 'gateway.yaml', inForce)
      assert.ok(calls > 0)
      calls = 0
      assert.ok(new Policies(inForce.authz as AuthzConfig, inForce.name))
      assert.is(calls, 0)
    }
    await readGateway(JSON.stringify({ ...one, allowedHosts: ['a'] }), 'gateway.yaml', inForce)
    assert.is(calls, 0)
  } finally {
    Object.assign(engine, { run })
  }
})

test('JSON is accepted, with tabs too', () => {
  const config = parse(good)
  assert.equal(parse(JSON.stringify(config, null, '\t')), config)
  assert.equal(parse(JSON.stringify(config)), config)
})

test('all mistakes are reported at once, with pointer and line', () => {
  assert.equal(
    findings(`name: demo
incomingAuth:
  type: openid
backends:
  - name: one
    url: ftp://example.com
    tiemout: 3s
  - url: https://example.com/mcp
    timeout: ten seconds
extra: 1
`),
    [
      'gateway.yaml:1: /namespace: is required',
      'gateway.yaml:10: /extra: unknown field',
      'gateway.yaml:3: /incomingAuth/type: must be one of "anonymous", "oidc"',
      'gateway.yaml:7: /backends/0/tiemout: unknown field',
      'gateway.yaml:6: /backends/0/url: must match pattern "^https?://"',
      'gateway.yaml:8: /backends/1/name: is required',
      'gateway.yaml:9: /backends/1/timeout: must match pattern "^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"',
    ],
  )
})

test('an unknown field does not hide mistakes across other fields', () => {
  const text = `${good}  - name: one\n    url: http://127.0.0.1:2/mcp\n`
  assert.equal(
    findings(`${text}extra: 1\n`).map((line) => line.replace(/^[^/]*/, '')),
    ['/extra: unknown field', '/backends/1/name: is the same as /backends/0/name'],
  )
})

test('a missing field or one of the wrong type does not hide them either', () => {
  const text = `${good}  - { name: one, url: 'http://127.0.0.1:2/mcp', timeout: 7 }\n  - { url: 'http://127.0.0.1:99999' }\n`
  assert.equal(
    findings(text.replace('namespace: default\n', '')).map((line) => line.replace(/^[^/]*/, '')),
    [
      '/namespace: is required',
      '/backends/1/timeout: must be of type string',
      '/backends/2/name: is required',
      '/backends/1/name: is the same as /backends/0/name',
      '/backends/2/url: is not a URL',
    ],
  )
})

test('rules across fields report nothing about an invalid value', () => {
  const text = `${good.replace('name: one', 'name: 7')}  - { name: 7, url: 'http://127.0.0.1:2/mcp' }\n`
  assert.equal(
    findings(text).map((line) => line.replace(/^[^/]*/, '')),
    ['/backends/0/name: must be of type string', '/backends/1/name: must be of type string'],
  )
})

test('a check that fails on an invalid value hides no finding', () => {
  const schema = Type.Object({ a: Type.String({ pattern: '^[0-9]+$' }), b: Type.String() })
  const parseStrictly = configParser(schema, ({ a }) => {
    throw new TypeError(`no number: ${a}`)
  })
  try {
    parseStrictly('{ a: x, b: 7 }')
    assert.unreachable()
  } catch (error) {
    assert.instance(error, ConfigError)
    assert.equal(
      (error as ConfigError).findings.map(({ pointer }) => pointer),
      ['/a', '/b'],
    )
  }
})

test('no check throws on a wrong type in any place', () => {
  const config = parse(good) as unknown as Record<string, unknown>
  for (const wrong of [null, true, 7, 'text', [], {}, [[]], [null], { a: 1 }])
    for (const name of Object.keys(config))
      assert.ok(findings(JSON.stringify({ ...config, [name]: wrong })) !== undefined)
})

test('unreadable YAML is reported', () => {
  assert.match(findings('name: [').join(), /^gateway\.yaml:1: /)
  assert.match(findings('a: 1\na: 2\n').join(), /^gateway\.yaml:2: .*unique/)
  assert.equal(findings(''), ['gateway.yaml: the file is empty'])
  assert.equal(findings('# nothing\n'), ['gateway.yaml: the file is empty'])
  assert.match(findings('just text').join(), /must be of type object/)
  assert.match(findings('a: *nobody').join(), /nobody/)
  assert.match(findings(`${good}---\n${good}`).join(), /document/i)
  const bomb = `a: &a [x,x,x,x,x,x,x,x,x,x]\n${'bcdefgh'
    .split('')
    .map((name, index) => `${name}: &${name} [${`*${'abcdefgh'[index]},`.repeat(10)}]`)
    .join('\n')}`
  assert.match(findings(bomb).join(), /alias/i)
})

const repeat = (count: number, part: (index: number) => string) =>
  Array.from({ length: count }, (_, i) => part(i)).join('')

test('the time for many keys is linear', () => {
  const texts: Readonly<Record<string, string>> = {
    'unknown fields': good + repeat(30_000, (i) => `k${i}: 1\n`),
    'a key again and again': `${good}more: {${repeat(30_000, () => 'k: 1,')}}\n`,
    'an ordered map': `%YAML 1.1\n---\n${good}more: !!omap [${repeat(30_000, (i) => `k${i}: 1,`)}]\n`,
  }
  for (const [what, text] of Object.entries(texts)) {
    const before = process.cpuUsage().user
    assert.ok(findings(text).length > 0, what)
    // Comparing every key with every other takes more than ten seconds.
    assert.ok(process.cpuUsage().user - before < 5_000_000, `${what} take too long`)
  }
})

test('a few aliases are followed, and many are refused', () => {
  const map = `&a {${repeat(3_000, (i) => `k${i}: 1,`)}}`
  assert.equal(findings(`${good}more: [&a 1${repeat(101, () => ', *a')}]\n`), [
    'gateway.yaml: has more than 100 aliases',
  ])
  assert.equal(
    findings(`${good}more: ${map}\nless: [${repeat(99, () => '{<<: *a},')}${repeat(200_000, () => '1,')}]\n`),
    ['gateway.yaml: has too many aliases for its size'],
  )
})

test('a key that is a map or a list is refused before it is written out', () => {
  for (const key of ['? '.repeat(200), '{? ['.repeat(60), '[{'.repeat(60)]) {
    const closed = [...key].reverse().join('').replaceAll('{', '}').replaceAll('[', ']').replaceAll('?', '')
    // Each level doubles the library's output.
    assert.equal(findings(`${good}more:\n  ${key}a${key.includes('{') ? closed : ''}\n`), [
      'gateway.yaml:8: a key must be text, not a map or a list',
    ])
  }
  assert.equal(findings(`${good}more: {{ .Values.more }}\n`), [
    'gateway.yaml:7: a key must be text, not a map or a list',
  ])
})

test('a repeated key is found at any depth, and a merge is not one', () => {
  assert.equal(findings(`${good}search:\n  a: 1\n  b: { c: 1, c: 2 }\n  a: 1\n`), [
    'gateway.yaml:9: Map keys must be unique',
    'gateway.yaml:10: Map keys must be unique',
  ])
  assert.equal(findings(`${good}x: &x { a: 1 }\ny: { <<: *x, <<: *x }\n`), [
    'gateway.yaml:7: /x: unknown field',
    'gateway.yaml:8: /y: unknown field',
  ])
})

test('plain scalars keep their type: no, 1.10 and dates are text', () => {
  assert.is(parse(good.replace('demo', 'no')).name, 'no')
  assert.is(parse(good.replace('demo', '2025-11-25')).name, '2025-11-25')
  assert.equal(findings(good.replace('demo', '1.10')), ['gateway.yaml:1: /name: must be of type string'])
})

test('findings do not contain wrong values, which may be secrets in the wrong place', () => {
  const text = good.replace('name: one', 'name: { password: hunter2-hunter2 }').replace('http://', 'hunter2-hunter2://')
  assert.ok(findings(text).length > 0)
  assert.not.match(findings(text).join(), /hunter2/)
})

test('a key named like a built-in property does no harm', () => {
  assert.match(findings(`${good}__proto__: { role: proxy }\n`).join(), /__proto__: unknown field/)
})

test('a missing file is reported', async () => {
  const file = join(tmpdir(), 'portico-there-is-no-such-file.yaml')
  try {
    await load(file)
    assert.unreachable()
  } catch (error) {
    assert.instance(error, ConfigError)
    assert.is((error as Error).message, `${file}: the file does not exist`)
  }
})

const oidc = (fields: string) => good.replace('{ type: anonymous }', `{ type: oidc, oidc: { ${fields} } }`)
for (const [what, text, expected] of [
  ['nothing wrong', good, []],
  ['oidc without its block', good.replace('anonymous', 'oidc'), ['/incomingAuth/oidc: is required under type oidc']],
  [
    'anonymous with the block of oidc',
    good.replace('anonymous', 'anonymous, oidc: { issuer: "https://a.example", audience: b }'),
    ['/incomingAuth/oidc: must be left out with type anonymous'],
  ],
  ...[
    [
      'names of keys in memory',
      `${good}sessionStorage: { keyPrefix: a }\n`,
      '/sessionStorage/keyPrefix: has no effect without redis: sessions in memory have no keys',
    ],
    [
      'the timeout of no service',
      `${good}optimizer: { embeddingServiceTimeout: 1s }\n`,
      '/optimizer/embeddingServiceTimeout: needs embeddingService',
    ],
    [
      'an order of another strategy',
      `${good}aggregation: { conflictResolutionConfig: { priorityOrder: [one] } }\n`,
      '/aggregation/conflictResolutionConfig/priorityOrder: has no effect under conflictResolution prefix',
    ],
    [
      'a prefix of another strategy',
      `${good}aggregation: { conflictResolution: manual, conflictResolutionConfig: { prefixFormat: a } }\n`,
      '/aggregation/conflictResolutionConfig/prefixFormat: has no effect under conflictResolution manual',
    ],
    [
      'a claim that chooses nothing',
      `${oidc('issuer: "https://a.example", audience: b')}    credential: { type: awsSts, awsSts: { region: eu-west-1, roleClaim: a, fallbackRoleArn: "arn:aws:iam::123456789012:role/a" } }\n`,
      '/backends/0/credential/awsSts/roleClaim: has no effect: no entry of roleMappings has a claim',
    ],
  ].map(([what, text, says]) => [what, text, [says]] as [string, string, string[]]),
  [
    'a proxy that is called over sse',
    `${good}    transport: sse\n    enforcesPins: true\n`,
    ['/backends/0/enforcesPins: is for proxies, which are called over streamable-http'],
  ],
  ['an https issuer', oidc('issuer: "https://a.example/b", audience: b'), []],
  ['an http issuer on loopback', oidc('issuer: "http://localhost:1", audience: b'), []],
  ['an http issuer that is allowed', oidc('issuer: "http://idp", audience: b, insecureAllowHTTP: true'), []],
  ['an http issuer', oidc('issuer: "http://a.example", audience: b'), [/\/issuer: must be https/]],
  [
    'a key URL over http',
    oidc('issuer: "https://a.b", jwksUrl: "http://a.b/k", audience: b'),
    [/jwksUrl: must be https/],
  ],
  ['an issuer with a query', oidc('issuer: "https://a.example?x", audience: b'), [/\/issuer: must have no query/]],
  [
    'an issuer with credentials',
    oidc('issuer: "https://u:p@a.example", audience: b'),
    [/\/issuer: must hold no credentials$/],
  ],
  [
    'a resource URL with a fragment',
    `${good}resourceUrl: https://a.example/mcp#x\n`,
    [/resourceUrl: must have no frag/],
  ],
  ['two backends of a name', `${good}  - { name: one, url: "http://b/mcp" }\n`, [/\/backends\/1\/name: is the same/]],
  [
    'a proxy of two',
    `${good}  - { name: b, url: "http://b/mcp" }\nrole: proxy\n`,
    [/\/backends: a proxy has exactly one/],
  ],
  ['a URL that is none', good.replace('127.0.0.1:1', '127.0.0.1:99999'), [/\/backends\/0\/url: is not a URL/]],
  ['a header that is ours', `${good}    headers: { Host: a }\n`, [/\/headers\/Host: this header is set by/]],
  ['no header name', `${good}    headers: { "a b": c }\n`, [/\/headers\/a b: is not a header name/]],
  ['a header with a line break', `${good}    headers: { a: "b\\nc: d" }\n`, [/\/headers\/a: is not a header value/]],
  [
    'a header twice',
    `${good}    headers: { X-A: b }\n    headerFiles: [{ name: x-a, file: f }]\n`,
    [/\/headerFiles\/0\/name: this header is set twice/],
  ],
] as const)
  test(`rules across fields: ${what}`, () => {
    const found = findings(text)
    assert.is(found.length, expected.length, found.join('\n'))
    for (const [index, part] of expected.entries())
      assert.match(found[index] as string, part instanceof RegExp ? part : new RegExp(`: ${part}$`))
  })

test.run()
