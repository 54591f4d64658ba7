import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Manifest, ManifestFinding } from '../../../operator/cluster/files/index.ts'
import { type Accepted, accept, nothingAccepted } from '../../../operator/standalone/manifest-feed.ts'

const manifest = (name: string, file: string, revision = 1): Manifest => ({
  object: { apiVersion: 'portico.dev/v1beta1', kind: 'MCPGroup', metadata: { name }, revision },
  id: { kind: 'MCPGroup', namespace: 'default', name },
  file,
  findLine: () => 1,
  misreading: () => undefined,
})

const set = (...manifests: Manifest[]): Accepted => ({ ...nothingAccepted, manifests })

const finding = (file: string, reason = 'SchemaInvalid'): ManifestFinding => ({
  severity: 'error',
  reason,
  message: '',
  file,
  line: 1,
})

const listRevisions = ({ manifests }: Accepted) => manifests.map(({ id, object }) => `${id.name}${object['revision']}`)

const before = set(manifest('a', 'x.yaml'), manifest('b', 'x.yaml'), manifest('c', 'y.yaml'))

test('objects that leave the files are gone; a new version replaces the old one', () => {
  assert.equal(listRevisions(accept(before, set(manifest('a', 'x.yaml', 2)), [])), ['a2'])
})

test('objects of a file with an error stay as they were, those of other files go', () => {
  assert.equal(listRevisions(accept(before, set(manifest('a', 'x.yaml', 2)), [finding('x.yaml')])), ['a2', 'b1'])
})

test('an object that moved to another file is there once', () => {
  const after = accept(before, set(manifest('a', 'z.yaml', 2)), [finding('x.yaml'), finding('y.yaml')])
  assert.equal(listRevisions(after), ['a2', 'b1', 'c1'])
})

test('a folder that is missing for a moment loses nothing', () => {
  const inFolder = set(manifest('a', 'folder/x.yaml'))
  assert.equal(listRevisions(accept(inFolder, set(), [finding('folder', 'FileMissing')])), ['a1'])
})

test.run()
