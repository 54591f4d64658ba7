import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Catalog } from '../../../../dataplane/registry/sources/format/catalog-reader.ts'
import { SourceError } from '../../../../dataplane/registry/sources/format/source-error.ts'
import { parseCatalog } from '../../../support/registry/parse-catalog.ts'
import { registryFile, server } from '../../../support/registry/registry.ts'

/** Parses in large chunks and byte by byte: the results must be the same. */
async function parse(text: string | Buffer): Promise<Catalog> {
  const bytes = Buffer.from(text as string)
  const whole = await parseCatalog(bytes)
  if (bytes.length < 10_000) assert.equal(await parseCatalog(bytes, 1), whole)
  return whole
}
const good = server('com.example/good')

test('a registry file with servers and skills', async () => {
  const skill = { namespace: 'com.example', name: 'writing', version: '1.0.0', description: 'Writes' }
  const { versions, problems } = await parse(registryFile([server('com.example/a', '1.2.3', { title: 'A' })], [skill]))
  assert.equal(problems, [])
  assert.equal(
    versions.map(({ type, name, version, title, description, status }) => [
      type,
      name,
      version,
      title,
      description,
      status,
    ]),
    [
      ['server', 'com.example/a', '1.2.3', 'A', 'About com.example/a', 'active'],
      ['skill', 'com.example/writing', '1.0.0', null, 'Writes', 'active'],
    ],
  )
})

test('a list response with its _meta', async () => {
  const { versions } = await parse(
    JSON.stringify({
      servers: [
        {
          server: good,
          _meta: {
            'io.modelcontextprotocol.registry/official': {
              status: 'deprecated',
              statusMessage: 'Use another.',
              publishedAt: '2025-01-02T03:04:05.123456+01:00',
              updatedAt: '2025-05-05T00:00:00Z',
              isLatest: true,
            },
            'com.example/curation': { tier: 1 },
          },
        },
      ],
      metadata: { count: 1 },
    }),
  )
  const [version] = versions
  assert.is(version?.status, 'deprecated')
  assert.is(version?.statusMessage, 'Use another.')
  assert.is(version?.publishedAt, '2025-01-02T02:04:05.123Z')
  assert.is(version?.others, '{"com.example/curation":{"tier":1}}')
})

test('a status is read in whichever case', async () => {
  const inCase = (status: unknown) => ({
    server: good,
    _meta: { 'io.modelcontextprotocol.registry/official': { status } },
  })
  for (const [written, read] of [
    ['DELETED', 'deleted'],
    ['Deprecated', 'deprecated'],
    [null, 'active'],
  ])
    assert.is((await parse(JSON.stringify({ servers: [inCase(written)] }))).versions[0]?.status, read)
})

test('a plain list of documents, as people write it', async () => {
  const { versions, problems } = await parse(
    JSON.stringify({ servers: [good, { server: server('com.example/b') }, {}] }),
  )
  assert.equal(
    versions.map(({ name }) => name),
    ['com.example/good', 'com.example/b'],
  )
  assert.equal(problems, [{ pointer: '/servers/2/server', message: 'must be object' }])
})

test('invalid JSON is reported without an empty pointer', async () => {
  try {
    await parse('servers:\n  - name: com.example/y\n')
    assert.unreachable()
  } catch (error) {
    assert.instance(error, SourceError)
    assert.match((error as SourceError).message, /^the file is not JSON: [^:]/)
  }
})

test('a document stays as it is: order, unknown fields, numbers that JavaScript would change, awkward texts', async () => {
  const document =
    '{"zeta":1.0,"name":"com.example/exact","version":"1","description":"…","_meta":{"big":12345678901234567890,"e":1e400,"__proto__":{"x":[1.50,-0.0]}},"a":null}'
  const { versions } = await parse(`{"data":{"servers":[ ${document} ]}}`)
  assert.is(versions[0]?.document, document)
  assert.is(versions[0]?.description, '…')
})

test('lone surrogates and NUL are removed, also in member names and beside the document', async () => {
  const text = String.raw`{"servers":[{"server":{"name":"com.example/a","version":"1","description":"x\u0000\ud83d y\udc00\ud83d\ude00","_meta":{"k\ud800":["\u0000"],"n":null}},"_meta":{"other":{"a":"\udfff","b":null}}}]}`
  const { versions, problems } = await parse(text)
  assert.equal(problems, [])
  assert.equal(JSON.parse(versions[0]?.document ?? ''), {
    name: 'com.example/a',
    version: '1',
    description: 'x\ufffd y\ufffd😀',
    _meta: { 'k\ufffd': [''], n: null },
  })
  assert.equal(JSON.parse(versions[0]?.others ?? ''), { other: { a: '\ufffd', b: null } })
})

test('null counts as absent, for lists and members of documents', async () => {
  for (const text of [
    '{"servers":null}',
    '{"servers":null,"metadata":null}',
    '{"data":{"servers":[],"skills":null}}',
    '{"version":"1.0.0","data":{"servers":null,"skills":null}}',
  ])
    assert.equal(await parse(text), { versions: [], problems: [] }, text)
  assert.is((await parse(`{"data":{"servers":[${JSON.stringify(good)}],"skills":null}}`)).versions.length, 1)
  const packages = [
    { registryType: 'npm', identifier: 'a', transport: { type: 'stdio' }, packageArguments: null, runtimeHint: null },
    null,
  ]
  const nulls = { title: null, icons: null, remotes: null, repository: null, _meta: null }
  const document = { ...server('com.example/a', '1.0.0'), ...nulls, packages }
  const skill = { namespace: 'com.example', name: 's', version: '1.0.0', description: null, title: null }
  for (const text of [
    registryFile([document], [skill]),
    JSON.stringify({ servers: [{ server: document, _meta: null }] }),
  ]) {
    const { versions, problems } = await parse(text)
    assert.equal(problems, [], text)
    assert.equal(JSON.parse(versions[0]?.document ?? ''), {
      ...server('com.example/a', '1.0.0'),
      packages: [{ registryType: 'npm', identifier: 'a', transport: { type: 'stdio' } }],
    })
  }
  const { problems } = await parse(registryFile([good, { ...good, version: null }]))
  assert.match(problems[0]?.message ?? '', 'version')
})

test('a byte order mark is skipped', async () => {
  assert.is((await parse(`\uFEFF${registryFile([good])}`)).versions.length, 1)
})

test('an empty catalog is accepted', async () => {
  assert.equal(await parse(registryFile([])), { versions: [], problems: [] })
})

const left: Record<string, [unknown, string, RegExp]> = {
  'no object': [null, '', /must be object/],
  'a list': [[], '', /must be object/],
  'no name': [{ ...good, name: undefined }, '', /name/],
  'no description': [{ ...good, description: undefined }, '', /description/],
  'no version': [{ ...good, version: undefined }, '', /version/],
  'a number as version': [{ ...good, version: 1 }, '/version', /string/],
  'a name without a slash': [server('good'), '/name', /namespace\/name/],
  'a name with two': [server('a/b/c'), '/name', /namespace\/name/],
  'a name with a blank': [server('a/b c'), '/name', /namespace\/name/],
  'a name that is too long': [server(`a/${'b'.repeat(199)}`), '/name', /200/],
  'the version latest': [server('a/b', 'latest'), '/version', /latest/],
  'an empty version': [server('a/b', ''), '/version', /1 to 255/],
  'a version with a line break': [server('a/b', '1\n2'), '/version', /1 to 255/],
  'a version with half a character': [server('a/b', '1\ud800'), '/version', /1 to 255/],
  'a version that is too long': [server('a/b', '1'.repeat(256)), '/version', /255/],
  'packages that are no list': [{ ...good, packages: {} }, '/packages', /array/],
  'a remote that is no object': [{ ...good, remotes: ['x'] }, '/remotes/0', /object/],
  'a _meta that is no object': [{ ...good, _meta: [] }, '/_meta', /object/],
  'a title that is no text': [{ ...good, title: {} }, '/title', /string/],
  'a document that nests too deep': [{ ...good, _meta: { deep: nest(64) } }, '', /deeper/],
  'a document that is too long': [{ ...good, _meta: { long: 'x'.repeat(2 ** 20) } }, '', /longer/],
}
for (const [what, [entry, pointer, message]] of Object.entries(left))
  test(`left out: ${what}`, async () => {
    const { versions, problems } = await parse(registryFile([good, entry]))
    assert.equal(
      versions.map(({ name }) => name),
      ['com.example/good'],
    )
    assert.is(problems.length, 1)
    assert.is(problems[0]?.pointer, `/data/servers/1${pointer}`)
    assert.match(problems[0]?.message ?? '', message)
  })

test('left out: an entry that nests without end beside a number that is kept as it is written', async () => {
  const deep = registryFile([good, { ...good, _meta: { deep: '#' } }]).replace(
    '"#"',
    `[1.0,${'['.repeat(20_000)}${']'.repeat(20_000)}]`,
  )
  const { versions, problems } = await parse(deep)
  assert.is(versions.length, 1)
  assert.match(problems[0]?.message ?? '', /deeper/)
})

test('a long key is reported by its beginning', async () => {
  await parse(`{"${'k'.repeat(100_000)}": 1 2}`).then(
    () => assert.unreachable(),
    (error: SourceError) => {
      assert.is(error.code, 'not_json')
      assert.ok(error.message.length < 1_000)
    },
  )
})

test('left out: the second of the same version, in a list response and beside bad skills too', async () => {
  const list = await parse(JSON.stringify({ servers: [{ server: good }, { server: good }, { entry: 1 }] }))
  assert.equal(
    list.problems.map(({ pointer }) => pointer),
    ['/servers/1/server', '/servers/2/server'],
  )
  const { problems } = await parse(registryFile([good], [{ namespace: 'a', version: '1' }]))
  assert.equal(
    problems.map(({ pointer }) => pointer),
    ['/data/skills/0'],
  )
})

test('entries in the format of 2025-05 are reported as such, one by one and as a plain list', async () => {
  const old = {
    id: '4e9cf4cf-71f6-4aca-bae8-2d10a29ca2e0',
    name: 'com.example/old',
    description: 'Old',
    repository: { url: 'https://git.example/old', source: 'github', id: '1' },
    version_detail: { version: '0.0.1-seed', release_date: '2025-05-16T18:56:49Z', is_latest: true },
    packages: [{ registry_name: 'npm', name: 'old', version: '1.0.0' }],
  }
  const { versions, problems } = await parse(JSON.stringify({ servers: [old, good, { server: old }] }))
  assert.equal([versions.length, problems.map(({ pointer }) => pointer)], [1, ['/servers/0', '/servers/2/server']])
  for (const { message } of problems) assert.match(message, 'write it as a current server.json')
  for (const before of ['', '\ufeff', '\n '])
    await parseCatalog(Buffer.from(`${before}${JSON.stringify([old])}`)).then(
      () => assert.unreachable(),
      ({ code, message }: SourceError) => {
        assert.is(code, 'wrong_shape')
        assert.match(message, 'it is a bare list: write {"servers": […]} around it')
      },
    )
})

test('names that differ only in case are each reported once, and served', async () => {
  const names = ['com.example/Tool', 'com.example/tool', 'com.example/other', 'COM.example/tool']
  const servers = names.flatMap((name) => [server(name), server(name, '2.0.0')])
  const { versions, problems } = await parse(
    registryFile(servers, [{ namespace: 'com.example', name: 'TOOL', version: '1.0.0' }]),
  )
  assert.is(versions.length, 9)
  assert.equal(problems, [
    {
      pointer: '/data/servers/2',
      message: 'com.example/tool differs by case alone from a name that came before; both are served',
      served: true,
    },
    {
      pointer: '/data/servers/6',
      message: 'COM.example/tool differs by case alone from a name that came before; both are served',
      served: true,
    },
  ])
})

test('left out: a skill with a name that nobody can request', async () => {
  const skill = { namespace: 'com.example', name: 'writing', version: '1.0.0' }
  const bad = ['a\0b', 'a/b', '語'.repeat(64)].map((name) => ({ ...skill, name }))
  const { versions, problems } = await parse(registryFile([], [skill, ...bad]))
  assert.is(versions.length, 1)
  assert.equal(
    problems.map(({ pointer }) => pointer),
    ['/data/skills/1/name', '/data/skills/2/name', '/data/skills/3/name'],
  )
})

test('a status message is text that every database takes', async () => {
  const _meta = { 'io.modelcontextprotocol.registry/official': { status: 'deprecated', statusMessage: 'Gone\0.' } }
  const { versions } = await parse(JSON.stringify({ servers: [{ server: good, _meta }] }))
  assert.is(versions[0]?.statusMessage, 'Gone.')
})

test('left out: an entry over the length limit; later entries are read', async () => {
  const long = { ...good, name: 'com.example/long', description: 'x'.repeat(5 * 2 ** 20) }
  const { versions, problems } = await parse(registryFile([long, good]))
  assert.equal(
    versions.map(({ name }) => name),
    ['com.example/good'],
  )
  assert.is(problems[0]?.pointer, '/data/servers/0')
  assert.match(problems[0]?.message ?? '', /longer/)
})

test('white space anywhere, keys in any order and with escapes, and unknown members', async () => {
  const text = `\n{ "other" : [1, {"a": "}]\\"{"}], "d\\u0061ta"\t: { "extra": null , "servers" :\r\n[ ${JSON.stringify(good)} , {"name":1} ] } , "meta":{"servers":[]} }\n`
  const { versions, problems } = await parse(text)
  assert.is(versions.length, 1)
  assert.is(problems.length, 1)
})

test('skills of a list response', async () => {
  const skill = { namespace: 'com.example', name: 'writing', version: '1.0.0' }
  const { versions } = await parse(JSON.stringify({ skills: [{ skill, _meta: {} }], servers: [] }))
  assert.equal(
    versions.map(({ type, name }) => `${type} ${name}`),
    ['skill com.example/writing'],
  )
})

const broken: Record<string, [string | Buffer, string]> = {
  'an empty file': ['', 'not_json'],
  'half a file': [registryFile([good]).slice(0, -5), 'not_json'],
  'no UTF-8': [Buffer.from([0x22, 0xff, 0x22]), 'not_json'],
  'a file nested without end': ['['.repeat(1e6), 'not_json'],
  'a number': ['1', 'wrong_shape'],
  null: ['null', 'wrong_shape'],
  'another document': ['{"hello": 1}', 'wrong_shape'],
  'a list of the old shape': ['[{"name": "a"}]', 'wrong_shape'],
  'servers by name': ['{"servers": {"a": {}}}', 'wrong_shape'],
  'data without servers': ['{"data": {}}', 'wrong_shape'],
  'skills that are no list': [registryFile([good], {} as never), 'wrong_shape'],
  'something behind its end': [`${registryFile([good])} {}`, 'not_json'],
  'a comma too many': [registryFile([good]).replace(']', ',]'), 'not_json'],
  'a comma before the first': [registryFile([good]).replace('[', '[,'), 'not_json'],
  'a comma missing': [registryFile([good, good]).replace('},{', '} {'), 'not_json'],
  'a colon missing': [registryFile([good]).replace('"data":', '"data" '), 'not_json'],
  'a key without quotes': ['{data: {"servers": []}}', 'not_json'],
  'brackets that do not match': ['{"data": {"servers": []]}', 'not_json'],
  'brackets that do not match in an entry': ['{"data": {"servers": [{"a": [}]}]}}', 'not_json'],
  'a bad escape in an entry': ['{"data": {"servers": [{"a": "\\x"}]}}', 'not_json'],
  'a word that is none': ['{"data": {"servers": [], "x": nil}}', 'not_json'],
  'a bad value beside the entries': ['{"meta": {"a" 1}, "data": {"servers": []}}', 'not_json'],
  'no UTF-8 in an entry': [
    Buffer.from(registryFile([server('com.example/bad', '1', { title: '#' })]).replace('#', '\xff'), 'latin1'),
    'not_json',
  ],
  'half a byte order mark': [Buffer.from([0xef, 0x7b, 0x7d]), 'not_json'],
  'servers twice': ['{"data": {"servers": [], "servers": []}}', 'wrong_shape'],
  'data twice': ['{"data": {"servers": []}, "data": {"servers": []}}', 'wrong_shape'],
  'data and a list': ['{"data": {"servers": []}, "servers": []}', 'wrong_shape'],
  'servers that are no list': ['{"data": {"servers": {}}}', 'wrong_shape'],
  'nothing usable in it': [registryFile([{}, {}]), 'no_usable_entry'],
}
for (const [what, [text, code]] of Object.entries(broken))
  test(`refused as a whole: ${what}`, async () => {
    try {
      await parse(text)
      assert.unreachable()
    } catch (error) {
      assert.instance(error, SourceError)
      assert.is((error as SourceError).code, code)
    }
  })

function nest(levels: number): unknown {
  return levels === 0 ? 1 : { in: nest(levels - 1) }
}

test.run()
