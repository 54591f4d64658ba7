/** Checks that applied objects don't drift: client-side apply, server-side apply, and a three-way comparison. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments } from 'yaml'
import { kinds } from '../../../crds/index.ts'
import { findFiles } from '../../../operator/cluster/files/find.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { readCorpus } from '../../support/operator/crd-corpus.ts'
import { porticoProgram } from '../../support/portico-program.ts'
import { newCluster } from '../support/cluster.ts'
import { buildNamespace, manifest, yaml } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'

const cluster = newCluster()
const { kubectl } = cluster
const [program, ...options] = porticoProgram
const root = new URL('../../..', import.meta.url).pathname

type Applied = { kind: string; metadata: { name: string; namespace?: string } }

/** Returns everything under samples/ and every valid object of the corpus, with distinct names. */
function objects(namespace: string): Applied[] {
  const samples = findFiles([`${root}samples`]).files.flatMap(({ path }) =>
    parseAllDocuments(readFileSync(path, 'utf8')).map((document) => document.toJS() as Applied | null),
  )
  const ours = samples.filter((one) => one !== null && typeof one.kind === 'string') as Applied[]
  const named = ours.map((one, at) => ({ ...one, metadata: { ...one.metadata, name: `${one.metadata.name}-${at}` } }))
  // A client-side apply treats null as an absent field; a server-side apply refuses it.
  const corpus = readCorpus().filter(
    ({ refused, object }) => refused.length === 0 && !/:null/.test(JSON.stringify(object)),
  )
  return [
    ...named.filter(({ kind }) => kind !== 'Namespace'),
    ...corpus.map(({ object }, at) => ({ ...object, metadata: { ...object.metadata, name: `corpus-${at}` } })),
  ].map((one) => ({ ...one, metadata: { ...one.metadata, namespace } }))
}

const SPACES = ['drift-of-clients', 'drift-of-servers'] as const

test.before(async () => {
  await cluster.install()
  // An operator would create children for hundreds of objects.
  await cluster.stopOperator()
  cluster.apply(...SPACES.map((space) => buildNamespace(space)))
})
test.after(() => cluster.stop())

const buildYaml = (namespace: string) => yaml(...objects(namespace))
const apply = (input: string, ...more: string[]) =>
  kubectl(['apply', '-f', '-', ...more], { input })
    .trim()
    .split('\n')

test('a second client-side apply changes nothing', () => {
  const input = buildYaml(SPACES[0])
  const first = apply(input)
  assert.ok(first.length > 100 && first.every((line) => line.endsWith(' created')), first.join('\n'))
  // The last applied, the desired and the live object.
  const changed = apply(input).filter((line) => !line.endsWith(' unchanged'))
  assert.equal(changed, [])
  assert.is(kubectl(['diff', '-f', '-'], { input }), '')
})

test('a second server-side apply changes nothing', () => {
  const input = buildYaml(SPACES[1])
  const generations = () =>
    cluster
      .listMetadata(
        Object.values(kinds)
          .map(({ plural }) => plural)
          .join(),
        { namespace: SPACES[1] },
      )
      .map(({ name, generation }) => `${name} ${generation}`)
  apply(input, '--server-side')
  const before = generations()
  apply(input, '--server-side')
  assert.equal(generations(), before)
  assert.is(kubectl(['diff', '--server-side', '-f', '-'], { input }), '')
})

test('`portico render` prints what the operator writes, whatever the order of keys in a manifest', async () => {
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'exchange', namespace: 'default' } }
  const tokenExchange = {
    tokenUrl: 'https://idp.example/token',
    clientSecretRef: { name: 'exchange', key: 'k' },
    scopes: ['s'],
    audience: 'a',
    clientId: 'c',
  }
  const manifests = [
    { ...secret, stringData: { k: 'v' } },
    manifest('MCPExternalAuthConfig', 'exchange', { type: 'tokenExchange', tokenExchange }),
    manifest('MCPOIDCConfig', 'corp', { type: 'inline', inline: { issuer: 'https://idp.example' } }),
    manifest('MCPRemoteProxy', 'exchanging', {
      remoteUrl: 'https://mcp.example/mcp',
      oidcConfigRef: { name: 'corp', audience: 'a', resourceUrl: 'https://x.example/mcp' },
      externalAuthConfigRef: { name: 'exchange' },
    }),
  ]
  using folder = temporaryFolder({ 'all.yaml': yaml(...manifests) })
  const rendered = parseAllDocuments(
    execFileSync(program, [...options, 'render', folder.path], { cwd: root, encoding: 'utf8' }),
  ).map((document) => document.toJS() as Applied & { data?: Record<string, string> })
  for (const space of SPACES) cluster.remove('namespace', space)
  await eventually(() => SPACES.every((space) => !cluster.exists('namespace', space)), 'the other objects are gone')
  await cluster.startOperator()
  cluster.apply(...manifests)
  const text = await eventually(
    () => cluster.find('ConfigMap', 'exchanging-mcprp-config')?.data['gateway.yaml'],
    'the configuration',
  )
  const ours = rendered.find(
    ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'exchanging-mcprp-config',
  )
  assert.is(ours?.data?.['gateway.yaml'], text)
})

test.run()
