import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import { DEFAULT_GROUP, kinds } from '../../crds/index.ts'
import { createLog } from '../../dataplane/server/log.ts'
import { ApiServer } from '../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig, type PooledKubeConfig } from '../../operator/cluster/kubernetes/kube-config.ts'
import {
  ADMISSION_NAME,
  formatOperatorName,
  OPERATOR_LEASE_ROLE,
  OPERATOR_NAME,
  OPERATOR_NAMESPACE,
  OPERATOR_REVISIONS,
} from '../../operator/render/network/network.ts'
import { INSTALLATION, isOfInstallation, VERSION } from '../../operator/render/object/object.ts'
import { type ControllerOptions, PorticoOperator } from '../../operator/runtime/loop/controller.ts'
import type { Pod } from '../../operator/runtime/pods/observation.ts'
import { readStatusByAddress, readStatusByProxy } from '../../operator/runtime/pods/read-pod-status.ts'
import { formatFinalizerName, formatRightsFinalizerName } from '../../operator/runtime/queue/queue.ts'
import { clusterRights, namespacedRights, OwnRights, takeTogether } from '../../operator/runtime/removal/own-rights.ts'
import { findHeld, type Released, releaseAll } from '../../operator/runtime/removal/release.ts'
import { createIsRemoved, readOwnPod } from '../../operator/runtime/removal/removal.ts'
import { type Command, type Given, type Io, UsageError, waitForAbort } from '../command.ts'
import { collect, giveBackAfterWork, giveBackStartUp } from '../memory.ts'
import { clusterGroupOption, readApiGroup } from '../options/manifests.ts'
import {
  adminFromOption,
  podTemplateOption,
  podUsersOption,
  readAdminPeers,
  readPodTemplate,
} from '../options/pod-options.ts'
import { readAddress, readLogLevel } from '../options/serving.ts'
import { defaultImage } from '../package-info.ts'
import type { ServedAdmission } from './admission.ts'
import { serve } from './listeners.ts'

function readWorkers(given: Given): number {
  const text = given.text('workers') ?? ''
  const count = Number(text)
  if (!Number.isInteger(count) || count < 1 || count > 64)
    throw new UsageError(`--workers ${text}: takes a number from 1 to 64`)
  return count
}

/** The managed objects: the namespaces (none: all) and the installation, if it has a name. */
const readListen = (given: Given, option: string): string => readAddress(given, option) ?? ''

interface Scope {
  readonly namespaces: readonly string[]
  readonly installation: string | undefined
}

function readScope(given: Given): Scope {
  const installation = given.text('installation')
  if (installation !== undefined && !INSTALLATION.test(installation))
    throw new UsageError(
      `--installation ${installation}: takes a name of at most 40 lower-case letters, digits and hyphens`,
    )
  const namespaces = given.texts('namespace')
  // Authors set the label themselves: without this check they could claim rights over nodes that only this installation
  // grants.
  if (installation !== undefined && namespaces.length === 0 && readPodTemplate(given).podTemplate === 'any')
    throw new UsageError(
      `--pod-template any: with --installation ${installation} it needs --namespace, once for each namespace that it is meant for: any author of an object can give it the label`,
    )
  return { namespaces, installation }
}

function readOwnObjects(
  { env }: Io,
  given: Given,
  { installation }: Scope,
): Pick<ControllerOptions, 'lease' | 'revisionKey'> {
  const { POD_NAMESPACE: namespace = 'default' } = env
  return {
    revisionKey: { namespace: env['POD_NAMESPACE'] || OPERATOR_NAMESPACE, name: OPERATOR_REVISIONS },
    ...(given.flag('leader-elect') && { lease: { namespace, name: formatOperatorName(installation) } }),
  }
}

/** Returns the pod of this process; undefined outside a cluster. Waits for the API server until `io.stop`. */
async function findOwnPod({ env, stop }: Io, api: ApiServer, log: Logger): Promise<Pod | undefined> {
  const { POD_NAME: name, POD_NAMESPACE: namespace } = env
  return name && namespace ? readOwnPod(api, { namespace, name }, log, stop) : undefined
}

/** Returns the data plane's image: the option, else the image of this pod, else, outside a cluster, the default. */
function findImage(given: Given, { env }: Io, ownPod: Pod | undefined): string {
  const { POD_NAME: name, POD_NAMESPACE: namespace } = env
  const image = given.text('image')
  if (image) return image
  if (!name || !namespace) return defaultImage
  const { containers = [] } = (ownPod?.['spec'] ?? {}) as { containers?: { image: string }[] }
  const own = containers[0]?.image
  if (own) return own
  throw new UsageError(`POD_NAME: there is no pod ${namespace}/${name}: name the image of the data plane with --image`)
}

/**
 * Removes the finalizers of the managed objects and of the operator's rights. A running operator would add them again.
 */
async function release(given: Given, group: string, kubeConfig: PooledKubeConfig, io: Io): Promise<number> {
  const api = new ApiServer(kubeConfig, 'portico-operator')
  const resources = Object.values(kinds).map(({ kind, plural }) => ({ group, version: VERSION, plural, kind }))
  try {
    const { namespaces, installation } = readScope(given)
    // Cluster-wide objects are removed with the last of the configs.
    const rights = namespaces.length > 0 ? namespacedRights : [...clusterRights, ...namespacedRights]
    const isManaged = isOfInstallation(group, installation)
    const printReleased = ({ kind, namespace, name }: Released) =>
      io.out(`${kind} ${namespace ? `${namespace}/` : ''}${name} is released\n`)
    const released = await releaseAll(api, resources, namespaces, { finalizer: formatFinalizerName(group), isManaged })
    released.forEach(printReleased)
    // In a pod, its own account and Role may be outside the managed namespaces.
    const { POD_NAMESPACE: ownNamespace } = io.env
    const scopes = namespaces.length > 0 && ownNamespace ? [...new Set([...namespaces, ownNamespace])] : namespaces
    const finalizer = formatRightsFinalizerName(group)
    const own = {
      names: [...new Set([formatOperatorName(installation), OPERATOR_NAME, OPERATOR_LEASE_ROLE])],
      namespace: ownNamespace || OPERATOR_NAMESPACE,
    }
    const held = await findHeld(api, rights, scopes, { finalizer, own })
    await takeTogether(
      kubeConfig,
      held.map(({ path }) => path),
      finalizer,
    )
    held.forEach(printReleased)
    if (released.length + held.length === 0) io.out('no object is held\n')
    return 0
  } finally {
    await kubeConfig.closePool()
  }
}

/** Detects that this process is the last one: in a pod, by the objects that own it and grant its rights. */
function detectRemoval(
  ownPod: Pod | undefined,
  of: Scope & { readonly group: string },
  { kubeConfig, api }: { readonly kubeConfig: PooledKubeConfig; readonly api: ApiServer },
  onGoing: () => void,
): Pick<ControllerOptions, 'removal'> {
  const namespace = ownPod?.metadata.namespace
  if (ownPod === undefined || namespace === undefined) return {}
  const own = { namespace, managedNamespaces: of.namespaces, installation: of.installation }
  const rights = new OwnRights(kubeConfig, api, own, formatRightsFinalizerName(of.group))
  return { removal: { isRemoved: createIsRemoved(api, ownPod), rights, onGoing } }
}

export const command: Command = {
  name: 'operator',
  synopsis: '[options]',
  about: `Runs the operator: turns custom resources into Deployments, Services and ConfigMaps and writes their status.
Install it with 'kubectl apply -k operator/deploy'. Several replicas may run with --leader-elect: one works, the others wait.`,
  options: {
    kubeconfig: {
      type: 'string',
      value: 'FILE',
      description: 'Cluster to manage. Default: KUBECONFIG, ~/.kube/config, the pod’s own.',
    },
    namespace: {
      type: 'string',
      multiple: true,
      value: 'NAME',
      description: 'Only this namespace; repeatable. Default: all.',
    },
    'api-group': clusterGroupOption,
    installation: {
      type: 'string',
      value: 'NAME',
      description:
        'Name of one of several installations: it manages the objects whose label <group>/installation has this value. Default: those without the label.',
    },
    'leader-elect': {
      type: 'boolean',
      description: `Elect one of several replicas by the Lease ${OPERATOR_NAME} (${formatOperatorName('NAME')}).`,
    },
    workers: { type: 'string', value: 'N', default: '4', description: 'Objects that are reconciled at a time.' },
    image: {
      type: 'string',
      value: 'IMAGE',
      description: `Image of the data plane. Default: in a pod that pod’s own, elsewhere ${defaultImage}.`,
    },
    release: {
      type: 'boolean',
      description: 'Remove the finalizers of all configs and exit. For use after a removal, when no operator runs.',
    },
    'pod-template': podTemplateOption,
    'pod-users': podUsersOption,
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
      description: `Answers the admission webhook in the ValidatingWebhookConfiguration NAME: users who apply an object get warnings about it. The certificate is kept in the Secret ${ADMISSION_NAME}.`,
    },
    'admission-listen': { type: 'string', value: 'HOST:PORT', default: ':9443', description: 'HTTPS for the webhook.' },
    'metrics-listen': { type: 'string', value: 'HOST:PORT', default: ':8080', description: '/metrics for Prometheus.' },
  },
  async run(given, io) {
    if (given.positionals.length > 0) throw new UsageError(`too many arguments: ${given.positionals.join(' ')}`)
    const group = readApiGroup(given, io) ?? DEFAULT_GROUP
    const count = readWorkers(given)
    const scope = readScope(given)
    const adminPeers = readAdminPeers(given, io.env['POD_NAMESPACE'] || OPERATOR_NAMESPACE)
    const addresses = { health: readListen(given, 'health-listen'), metrics: readListen(given, 'metrics-listen') }
    const admissionAddress = readListen(given, 'admission-listen')
    const log = createLog({ name: 'operator', level: readLogLevel(io) })
    const kubeConfig = loadKubeConfig(given.text('kubeconfig'), { tell: (text) => log.warn(text) })
    if (given.flag('release')) return release(given, group, kubeConfig, io)
    const { POD_NAMESPACE: ownNamespace = 'default', POD_NAME: ownName = hostname() } = io.env
    const api = new ApiServer(kubeConfig, 'portico-operator')
    let running: PorticoOperator | undefined
    let admission: ServedAdmission | undefined
    await using open = new AsyncDisposableStack()
    open.defer(() => kubeConfig.closePool())
    const listening = await serve(() => running, addresses, { admission: () => admission, io, log, group, open })
    const ownPod = await findOwnPod(io, api, log)
    if (io.stop.aborted) return 0
    const image = findImage(given, io, ownPod)
    const removed = new AbortController()
    const operator = new PorticoOperator({
      kubeConfig,
      context: {
        group,
        image,
        ...readPodTemplate(given),
        ...adminPeers,
        resolveAddress: ({ namespace, name, port }) => `http://${name}.${namespace}.svc.cluster.local:${port}`,
      },
      ...scope,
      workers: count,
      identity: `${ownName}_${randomUUID()}`,
      readStatus: io.env['KUBERNETES_SERVICE_HOST'] ? () => readStatusByAddress : readStatusByProxy,
      log,
      ...detectRemoval(ownPod, { group, ...scope }, { kubeConfig, api }, () => removed.abort()),
      ...readOwnObjects(io, given, scope),
    })
    // Requests outside the loop are counted with the rest.
    api.onAnswer = operator.metrics.asked
    running = operator
    collect()
    log.info({ group, image, ...scope, ...listening }, 'started')
    await operator.start()
    const configuration = given.text('admission')
    admission = configuration
      ? (await import('./admission.ts')).serveAdmission({
          api,
          reviewer: operator.reviewer(),
          group,
          namespace: ownNamespace,
          configuration,
          address: admissionAddress,
          log,
        })
      : undefined
    open.adopt(giveBackStartUp(), clearTimeout)
    open.adopt(giveBackAfterWork(operator), clearInterval)
    await waitForAbort(AbortSignal.any([io.stop, removed.signal]))
    // The webhook ends before the watches: every review sees all objects.
    await admission?.close(io.stop.reason)
    await operator.stop()
    return 0
  },
}
