import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import { DEFAULT_GROUP, kinds } from '../crds/index.ts'
import { adminApp } from '../dataplane/server/admin.ts'
import { type Listener, listen } from '../dataplane/server/listen.ts'
import { createLog } from '../dataplane/server/log.ts'
import { ApiServer } from '../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig, type PooledKubeConfig } from '../operator/cluster/kubernetes/kube-config.ts'
import { ADMISSION_NAME, OPERATOR_NAMESPACE } from '../operator/render/network/admin-peers.ts'
import { VERSION } from '../operator/render/object/object.ts'
import { type ControllerOptions, PorticoOperator } from '../operator/runtime/loop/controller.ts'
import { readStatusByAddress, readStatusByProxy } from '../operator/runtime/pods/read-pod-status.ts'
import { finalizerName, rightsFinalizerName } from '../operator/runtime/queue/keys.ts'
import { clusterRights, namespacedRights, OwnRights } from '../operator/runtime/removal/own-rights.ts'
import { releaseAll } from '../operator/runtime/removal/release.ts'
import { watchRemoval } from '../operator/runtime/removal/removal.ts'
import packageJson from '../package.json' with { type: 'json' }
import { address } from './address.ts'
import { apiGroup } from './api-group.ts'
import { type Command, type Given, type Io, UsageError } from './command.ts'
import { logLevel } from './log-level.ts'
import { defaultImage } from './package-info.ts'
import { adminFromOption, adminPeersOf, podTemplateOf, podTemplateOption } from './pod-options.ts'
import { collect, giveBackStartUp } from './start-up-memory.ts'

const LEASE = 'portico-operator'

function workers(given: Given): number {
  const text = given.text('workers') ?? ''
  const count = Number(text)
  if (!Number.isInteger(count) || count < 1 || count > 64)
    throw new UsageError(`--workers ${text}: takes a number from 1 to 64`)
  return count
}

/** The data plane's image: what is asked for, else the image that this very pod runs, else, on somebody's machine, ours. */
async function dataPlaneImage(given: Given, io: Io, kubeConfig: PooledKubeConfig): Promise<string> {
  const { POD_NAME: name, POD_NAMESPACE: namespace } = io.env
  const image = given.text('image')
  if (image) return image
  if (!name || !namespace) return defaultImage
  const api = new ApiServer(kubeConfig, 'portico-operator')
  const pods = { group: '', version: 'v1', plural: 'pods', kind: 'Pod' }
  const pod = await api.get<{ spec: { containers: { image: string }[] } }>(pods, namespace, name)
  return pod.spec.containers[0]?.image as string
}

/** Lets go of what is held; one line each. With a running operator it would be held again at once. */
async function release(given: Given, group: string, kubeConfig: PooledKubeConfig, io: Io): Promise<number> {
  const api = new ApiServer(kubeConfig, 'portico-operator')
  const resources = Object.values(kinds).map(({ kind, plural }) => ({ group, version: VERSION, plural, kind }))
  try {
    const namespaces = given.texts('namespace')
    // What is of the whole cluster's goes with the last of the configs.
    const rights = namespaces.length > 0 ? namespacedRights : [...clusterRights, ...namespacedRights]
    let count = 0
    for (const [held, finalizer] of [
      [resources, finalizerName(group)],
      [rights, rightsFinalizerName(group)],
    ] as const) {
      for (const { kind, namespace, name } of await releaseAll(api, held, namespaces, finalizer)) {
        io.out(`${kind} ${namespace ? `${namespace}/` : ''}${name} is let go\n`)
        count++
      }
    }
    if (count === 0) io.out('nothing is held\n')
    return 0
  } finally {
    await kubeConfig.closePool()
  }
}

/** How this process learns that it is the last: in a pod, from what the pod is of and has its rights from. */
async function removalOf(
  { env }: Io,
  of: { readonly group: string; readonly namespaces: readonly string[] },
  kubeConfig: PooledKubeConfig,
  onGoing: () => void,
): Promise<Pick<ControllerOptions, 'removal'>> {
  const { POD_NAME: pod, POD_NAMESPACE: namespace } = env
  if (!pod || !namespace) return {}
  const api = new ApiServer(kubeConfig, 'portico-operator')
  const isRemoved = await watchRemoval(api, { namespace, pod })
  const rights = new OwnRights(
    kubeConfig,
    api,
    { namespace, lookedAfter: of.namespaces },
    rightsFinalizerName(of.group),
  )
  return { removal: { isRemoved, rights, onGoing } }
}

const version = { version: packageJson.version, node: process.versions.node }
/** How its metrics name it. */
const instance = { 'service.version': packageJson.version, 'service.instance.id': hostname() }

interface Addresses {
  readonly health: string
  readonly metrics: string
}

async function serve(
  operator: PorticoOperator,
  addresses: Addresses,
  log: Logger,
  group: string,
): Promise<readonly Listener[]> {
  const health = adminApp({
    ready: () => operator.ready,
    status: () => ({ leading: operator.leading, ready: operator.ready, absent: operator.absent }),
    version: { ...version, apiGroup: group },
    log,
  })
  const metrics = adminApp({
    ready: () => operator.ready,
    status: () => ({ leading: operator.leading }),
    version,
    metrics: (accept) => operator.metrics.text({ 'service.name': 'portico-operator', ...instance }, accept),
    log,
  })
  return [await listen(health.fetch, addresses.health), await listen(metrics.fetch, addresses.metrics)]
}

export const command: Command = {
  name: 'operator',
  synopsis: '[options]',
  about: `Looks after a cluster: turns the custom resources into Deployments, Services and ConfigMaps and reports back in
their status. Install it with 'kubectl apply -k operator/deploy'. Several replicas may run with --leader-elect:
one works, the others wait.`,
  options: {
    kubeconfig: {
      type: 'string',
      value: 'FILE',
      description: 'Cluster to look after. Default: KUBECONFIG, ~/.kube/config, the pod’s own.',
    },
    namespace: {
      type: 'string',
      multiple: true,
      value: 'NAME',
      description: 'Only this namespace; repeatable. Default: all.',
    },
    'api-group': {
      type: 'string',
      value: 'GROUP',
      description: `API group of our kinds; also PORTICO_API_GROUP. Default: ${DEFAULT_GROUP}.`,
    },
    'leader-elect': { type: 'boolean', description: `Take turns with other replicas through the Lease ${LEASE}.` },
    workers: { type: 'string', value: 'N', default: '4', description: 'Objects that are reconciled at a time.' },
    image: {
      type: 'string',
      value: 'IMAGE',
      description: `Image of the data plane. Default: in a pod that pod’s own, elsewhere ${defaultImage}.`,
    },
    release: {
      type: 'boolean',
      description:
        'Only let go of the configs that finalizers hold, and end: for after a removal, when no operator runs any more.',
    },
    'pod-template': podTemplateOption,
    'admin-from': adminFromOption,
    'health-listen': {
      type: 'string',
      value: 'HOST:PORT',
      default: ':8081',
      description: '/healthz, /readyz, /status, /version.',
    },
    admission: {
      type: 'string',
      value: 'NAME',
      description: `Answers the admission webhook in the ValidatingWebhookConfiguration NAME: whoever applies an object is warned of what is wrong with it. The certificate is kept in the Secret ${ADMISSION_NAME}.`,
    },
    'admission-listen': { type: 'string', value: 'HOST:PORT', default: ':9443', description: 'HTTPS for the webhook.' },
    'metrics-listen': { type: 'string', value: 'HOST:PORT', default: ':8080', description: '/metrics for Prometheus.' },
  },
  async run(given, io) {
    if (given.positionals.length > 0) throw new UsageError(`too many arguments: ${given.positionals.join(' ')}`)
    const group = apiGroup(given, io) ?? DEFAULT_GROUP
    const count = workers(given)
    const adminPeers = adminPeersOf(given, io.env['POD_NAMESPACE'] || OPERATOR_NAMESPACE)
    const addresses = { health: address(given, 'health-listen') ?? '', metrics: address(given, 'metrics-listen') ?? '' }
    const admissionAddress = address(given, 'admission-listen') ?? ''
    const log = createLog({ name: 'operator', level: logLevel(io) })
    const kubeConfig = loadKubeConfig(given.text('kubeconfig'))
    if (given.flag('release')) return release(given, group, kubeConfig, io)
    const image = await dataPlaneImage(given, io, kubeConfig)
    const { POD_NAMESPACE: ownNamespace = 'default', POD_NAME: ownName = hostname() } = io.env
    const removed = new AbortController()
    const operator = new PorticoOperator({
      kubeConfig,
      context: {
        group,
        image,
        ...podTemplateOf(given),
        ...adminPeers,
        addressOf: ({ namespace, name, port }) => `http://${name}.${namespace}.svc.cluster.local:${port}`,
      },
      namespaces: given.texts('namespace'),
      workers: count,
      identity: `${ownName}_${randomUUID()}`,
      readStatus: io.env['KUBERNETES_SERVICE_HOST'] ? () => readStatusByAddress : readStatusByProxy,
      log,
      ...(await removalOf(io, { group, namespaces: given.texts('namespace') }, kubeConfig, () => removed.abort())),
      ...(given.flag('leader-elect') ? { lease: { namespace: ownNamespace, name: LEASE } } : {}),
    })
    collect()
    const listeners = await serve(operator, addresses, log, group)
    log.info(
      { group, image, namespaces: given.texts('namespace'), health: listeners[0]?.url, metrics: listeners[1]?.url },
      'started',
    )
    await operator.start()
    const configuration = given.text('admission')
    const admission = configuration
      ? (await import('./admission.ts')).serveAdmission({
          api: new ApiServer(kubeConfig, 'portico-operator'),
          reviewer: operator.reviewer(),
          group,
          namespace: ownNamespace,
          configuration,
          address: admissionAddress,
          log,
        })
      : undefined
    const settled = giveBackStartUp()
    const stop = AbortSignal.any([io.stop, removed.signal])
    await new Promise<void>((resolve) => {
      if (stop.aborted) resolve()
      stop.addEventListener('abort', () => resolve(), { once: true })
    })
    // Before the watches end: what is reviewed is reviewed by all there is.
    await admission?.close()
    clearTimeout(settled)
    await operator.stop()
    await Promise.all(listeners.map((listener) => listener.close()))
    return 0
  },
}
