import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ApiServer } from '../../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'
import { Reflector } from '../../../operator/runtime/reflector.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { freePort } from '../../support/free-port.ts'

const kubeconfig = (port: number) => `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:${port}"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users: [{name: u, user: {token: t}}]
`

test('a server that stays away is told of once, however often it is tried', async () => {
  using folder = temporaryFolder({ kubeconfig: kubeconfig(await freePort()) })
  const lines: { level: number; msg: string; failures: number }[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const reflector = new Reflector({
    api: new ApiServer(loadKubeConfig(`${folder.path}/kubeconfig`), 'test'),
    resource: { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap' },
    namespace: 'default',
    log,
    store: { put: () => undefined, remove: () => undefined, replace: () => undefined },
  })
  reflector.start()
  await eventually('four attempts', () => reflector.metrics.failures >= 4)
  await reflector.stop()
  const failed = lines.filter(({ msg }) => msg === 'watch failed')
  assert.ok(failed.length >= 4)
  assert.equal(
    failed.filter(({ level }) => level >= pino.levels.values['warn']!).map(({ failures }) => failures),
    [1],
  )
})

test.run()
