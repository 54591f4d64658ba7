import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { buildMounts, removeSecrets, writeMounts } from '../../../../operator/standalone/pod/mounts.ts'
import { buildEnvironment, type Container, type Sources, type Volume } from '../../../../operator/standalone/pod/pod.ts'
import { temporaryFolder } from '../../../support/folder.ts'

const values = (entries: Record<string, string>) =>
  new Map(Object.entries(entries).map(([key, value]) => [key, Buffer.from(value)]))

function sources(secrets: Record<string, Record<string, string>>, configMaps = secrets): Sources {
  const find = (all: Record<string, Record<string, string>>) => (name: string) => all[name] && values(all[name])
  return { namespace: 'default', pod: 'x', secret: find(secrets), configMap: find(configMaps) }
}

const plane: Container = {
  name: 'portico',
  volumeMounts: [
    { name: 'config', mountPath: '/etc/portico/config' },
    { name: 'idp', mountPath: '/etc/portico/secrets/idp' },
    { name: 'state', mountPath: '/var/lib/portico' },
  ],
}
const volumes: Volume[] = [
  { name: 'config', configMap: { name: 'x-config' } },
  { name: 'idp', secret: { secretName: 'idp', items: [{ key: 'client-secret', path: 'client-secret' }] } },
  { name: 'state', emptyDir: {} },
]

test('the files that a pod would mount lie below the root, as the configuration names them', () => {
  using folder = temporaryFolder()
  const root = join(folder.path, 'x')
  const from = sources({ idp: { 'client-secret': 's3cret', other: 'o' } }, { 'x-config': { 'gateway.yaml': 'a: 1' } })
  const { folders, here } = buildMounts(root, plane, volumes, from)
  assert.is(writeMounts(root, folders), true)
  assert.is(readFileSync(join(root, 'config/../secrets/idp/client-secret'), 'utf8'), 's3cret')
  assert.equal(readdirSync(join(root, 'secrets/idp')), ['client-secret'])
  assert.is(statSync(join(root, 'secrets/idp/client-secret')).mode & 0o777, 0o600)
  assert.is(here('/etc/portico/config/gateway.yaml'), join(root, 'config/gateway.yaml'))
  assert.is(here('/var/lib/portico'), join(root, 'writable/var/lib/portico'))
  assert.is(here('/var/lib/porticos'), '/var/lib/porticos')
  assert.is(writeMounts(root, folders), false, 'nothing changed')
  removeSecrets(root)
  assert.is(existsSync(join(root, 'secrets')), false)
})

test('files that are no longer mounted are removed, and files of the workload stay', () => {
  using folder = temporaryFolder()
  const root = join(folder.path, 'x')
  const from = sources({ idp: { 'client-secret': 's' } }, { 'x-config': { 'gateway.yaml': 'a: 1' } })
  writeMounts(root, buildMounts(root, plane, volumes, from).folders)
  writeFileSync(join(root, 'writable/var/lib/portico/db'), 'rows')
  const less = { ...plane, volumeMounts: plane.volumeMounts?.filter(({ name }) => name !== 'idp') ?? [] }
  assert.is(writeMounts(root, buildMounts(root, less, volumes, from).folders), true)
  assert.equal(readdirSync(root).sort(), ['config', 'writable'])
  assert.is(readFileSync(join(root, 'writable/var/lib/portico/db'), 'utf8'), 'rows')
})

const impossible: readonly (readonly [title: string, volume: Volume, mountPath: string, message: string])[] = [
  ['a missing Secret', { name: 'v', secret: { secretName: 'gone' } }, '/etc/portico/v', 'there is no Secret gone'],
  [
    'a missing key',
    { name: 'v', configMap: { name: 'c', items: [{ key: 'k', path: 'k' }] } },
    '/etc/portico/v',
    'there is no key k in ConfigMap c',
  ],
  [
    'the token for the API server',
    { name: 'portico-cluster', projected: {} } as Volume,
    '/v',
    'and there is none here: apply it to a cluster, or name an issuer whose keys are found by discovery or jwksUrl',
  ],
  ['a token', { name: 'v', projected: {} } as Volume, '/v', 'volume v is of type projected, which needs a cluster'],
]

for (const [title, volume, mountPath, message] of impossible) {
  test(`a problem says what needs a cluster: ${title}`, () => {
    const container = { name: 'x', volumeMounts: [{ name: volume.name, mountPath }] }
    assert.throws(() => buildMounts('/root', container, [volume], sources({}, { c: {} })), new RegExp(message))
  })
}

test('a path never leads out of its volume', () => {
  using folder = temporaryFolder()
  const volume: Volume = { name: 'v', configMap: { name: 'c', items: [{ key: 'k', path: '../../escaped' }] } }
  const container = { name: 'x', volumeMounts: [{ name: 'v', mountPath: '/etc/portico/v' }] }
  const root = join(folder.path, 'x')
  const { folders } = buildMounts(root, container, [volume], sources({}, { c: { k: 'v' } }))
  assert.throws(() => writeMounts(root, folders), /leads out of its volume/)
  assert.is(existsSync(join(folder.path, 'escaped')), false)
})

test('a container’s environment: values, expansion, keys of Secrets and ConfigMaps, fields', () => {
  const container: Container = {
    name: 'mcp',
    envFrom: [{ configMapRef: { name: 'all' }, prefix: 'P_' }],
    env: [
      { name: 'A', value: 'a' },
      { name: 'B', value: '$(A)-$(GONE)-$$(A)' },
      { name: 'S', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } },
      { name: 'O', valueFrom: { secretKeyRef: { name: 'gone', key: 'k', optional: true } } },
      { name: 'N', valueFrom: { fieldRef: { fieldPath: 'metadata.namespace' } } },
    ],
  }
  assert.equal(buildEnvironment(container, sources({ s: { k: '$(A)' } }, { all: { x: '1' } })), {
    P_x: '1',
    A: 'a',
    B: 'a-$(GONE)-$(A)',
    S: '$(A)',
    N: 'default',
  })
})

test('a missing key of the environment is reported', () => {
  const container: Container = {
    name: 'mcp',
    env: [{ name: 'S', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } }],
  }
  assert.throws(() => buildEnvironment(container, sources({})), /S: there is no key k in Secret s/)
})

test.run()
