import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse, parseAllDocuments } from 'yaml'
import { crdFor, crdsYaml, DEFAULT_GROUP, kinds, writeCrds } from '../../crds/index.ts'

const count = Object.keys(kinds).length

test('one stream holds every definition, and reads back as it was made', () => {
  const documents = parseAllDocuments(crdsYaml('example.org')).map((document) => document.toJS())
  assert.is(documents.length, count)
  for (const declaration of Object.values(kinds)) {
    const crd = crdFor(declaration, 'example.org')
    assert.equal(
      documents.find((document) => document.metadata.name === crd.metadata.name),
      JSON.parse(JSON.stringify(crd)),
      declaration.kind,
    )
  }
})

test('items of lists get no defaults in the CRD, so applied objects stay as they were applied', () => {
  const found: string[] = []
  const checkNode = (node: unknown, path: string, isInItem: boolean): void => {
    if (typeof node !== 'object' || node === null) return
    if (isInItem && Object.hasOwn(node, 'default') && !path.endsWith('/properties')) found.push(path)
    for (const [key, inner] of Object.entries(node)) checkNode(inner, `${path}/${key}`, isInItem || key === 'items')
  }
  for (const declaration of Object.values(kinds)) {
    const [version] = crdFor(declaration, 'example.org').spec.versions
    checkNode(version?.schema.openAPIV3Schema.properties.spec, declaration.kind, false)
  }
  assert.equal(found, [])
})

test('the group is a parameter', () => {
  assert.not.match(crdsYaml('example.org'), new RegExp(DEFAULT_GROUP.replace('.', '\\.')))
})

test('the text is the same each time', () => {
  assert.is(crdsYaml('example.org'), crdsYaml('example.org'))
})

test('a folder gets a file for each kind and a kustomization of them', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'portico-crds-'))
  try {
    const target = join(folder, 'not', 'there', 'yet')
    const written = await writeCrds(target, 'example.org')
    assert.equal((await readdir(target)).sort(), [...written].sort())
    const { resources } = parse(await readFile(join(target, 'kustomization.yaml'), 'utf8'))
    assert.is(resources.length, count)
    for (const name of resources) {
      const crd = parse(await readFile(join(target, name), 'utf8'))
      assert.is(crd.metadata.name, `${name.replace('.yaml', '')}.example.org`)
    }
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('the committed files are up to date', async () => {
  const { generatedFiles } = await import('../../check/generate.ts')
  const root = new URL('../..', import.meta.url).pathname
  for (const [path, content] of await generatedFiles())
    assert.is(await readFile(join(root, path), 'utf8'), content, path)
})

test.run()
