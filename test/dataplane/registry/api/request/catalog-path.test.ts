import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { catalogIds, catalogOperations } from '../../../../../dataplane/registry/api/catalog/operations.ts'
import { parseCatalogPath, splitTarget } from '../../../../../dataplane/registry/api/request/query.ts'

const PARTS: Record<string, string> = { registry: 'main', entry: 'a.b%2Fc', version: '1.0.0%2B1' }

for (const { id, path } of catalogOperations)
  test(`${id}: the path of the description is parsed`, () => {
    const read = parseCatalogPath(path.replace(/\{(\w+)\}/g, (_, name) => PARTS[name] as string))
    assert.ok(read)
    assert.is(catalogIds[read.type][read.kind], id === 'getSkill' ? 'getSkillVersion' : id)
    assert.is(read.registry, 'main')
    if (read.kind !== 'list') assert.is(read.name, 'a.b/c')
    if (read.kind === 'version') assert.is(read.version, id === 'getSkill' ? 'latest' : '1.0.0+1')
  })

for (const [path, name, version] of [
  ['x/portico/skills/a/b', 'a/b', 'latest'],
  ['x/portico/skills/a%2Fb', 'a/b', 'latest'],
  ['x/portico/skills/a/versions', 'a/versions', 'latest'],
  ['x/portico/skills/a%2Fb/versions', 'a/b', ''],
  ['x/portico/skills/a/b/versions', 'a/b', ''],
  ['x/portico/skills/a/b/versions/1', 'a/b', '1'],
  ['servers/a/b/versions', 'a/b', ''],
  ['servers/a/b/versions/latest', 'a/b', 'latest'],
  ['servers/a/versions/versions', 'a/versions', ''],
  ['servers/versions/versions', 'versions', ''],
  ['servers/a%2Fversions/versions/versions', 'a/versions', 'versions'],
  ['servers/a%zz/versions', 'a%zz', ''],
] as const)
  test(`${path}: ${name} ${version}`, () => {
    const read = parseCatalogPath(`/registry/main/v0.1/${path}`)
    assert.equal([read?.name, read?.version], [name, version])
  })

for (const path of [
  '/',
  '/registry',
  '/registry/main',
  '/registry/main/v0.1',
  '/registry/main/v0.1/',
  '/registry/main/v0.1/servers/',
  '/registry//v0.1/servers',
  '/registry/main/v0.2/servers',
  '/registry/main/v0.1/servers/a%2Fb',
  '/registry/main/v0.1/servers/a/b/versions/1/more',
  '/registry/main/v0.1/x/portico',
  '/registry/main/v0.1/x/portico/skills/a',
  '/registry/main/v0.1/x/other/skills',
  '/registry/main/servers/a/b',
  '/x/../registry/main/v0.1/servers',
])
  test(`${path} is passed to the app`, () => assert.is(parseCatalogPath(path), undefined))

test('a target is split undecoded, with or without scheme and host', () => {
  const { path, query } = splitTarget('/a%2Fb?search=x+y&search=z')
  assert.equal([path, query.get('search')], ['/a%2Fb', 'x y'])
  assert.is(splitTarget('http://host:1/a?b=%zz').path, '/a')
  assert.is(splitTarget('HTTPS://host').path, '')
  assert.is(splitTarget('*').path, '*')
})

test.run()
