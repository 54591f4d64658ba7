/** A control plane with the operator at work under its own rights, and the few words in which a test speaks of both. */

import { kindNamed } from '../../../crds/index.ts'
import { ApiServer, isNotFound } from '../../../operator/cluster/kubernetes/api-server.ts'
import { childResource } from '../../../operator/cluster/kubernetes/child-kinds.ts'
import { loadKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'
import type { Resource } from '../../../operator/cluster/kubernetes/resource.ts'
import { given } from '../../support/given.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { newCluster } from './cluster.ts'
import type { ControlPlane } from './control-plane.ts'
import type { Manifest } from './manifests.ts'
import { eventually, OPERATOR_USER } from './operator-process.ts'

const GROUP = 'portico.dev'
const EVENTS: Resource = { group: 'events.k8s.io', version: 'v1', plural: 'events', kind: 'Event' }
const PODS: Resource = { group: '', version: 'v1', plural: 'pods', kind: 'Pod' }

type Texts = Readonly<Record<string, string>>

export interface Stage {
  readonly plane: ControlPlane
  apply(...manifests: readonly Manifest[]): void
  /** Puts Secrets or ConfigMaps there, by name, each with its texts. */
  put(kind: 'Secret' | 'ConfigMap', texts: Readonly<Record<string, Texts>>): void
  /** Deletes objects, as `kind/name`, without waiting for them to go. */
  remove(...names: readonly string[]): void
  /** An object of one of our kinds or of a kind of child, as the API server has it; undefined where there is none. */
  find(kind: string, name: string, namespace?: string): Promise<LiveObject | undefined>
  /** As `find`, of what has to be there. */
  get(kind: string, name: string): Promise<LiveObject>
  /** Pods with a label. */
  podsWith(labelSelector: string): Promise<LiveObject[]>
  /** Waits until an object is as wanted, and gives it; without `wanted`, until it is there. */
  until(kind: string, name: string, wanted?: (object: LiveObject) => unknown, namespace?: string): Promise<LiveObject>
  gone(kind: string, name: string): Promise<void>
  /** The data plane's configuration file, from the ConfigMap of a workload's children. */
  configOf(child: string): Promise<string>
  /** Waits until the configuration file reads so. */
  configured(child: string, pattern: RegExp | string): Promise<void>
  /** Waits until a condition says so (`True Reason: message`), and gives what it says; nothing is the empty text. */
  said(kind: string, name: string, type: string, pattern: RegExp | string): Promise<string>
  /** Waits until so many events have been written about an object for a reason. */
  events(kind: string, name: string, reason: string, count: number): Promise<void>
  /** What the operator has written to objects of these names since, but for Events. */
  counting(...names: readonly string[]): () => readonly string[]
  stop(): Promise<void>
}

function resourceOf(kind: string): Resource {
  const ours = kindNamed(kind)
  return ours ? { group: GROUP, version: 'v1beta1', plural: ours.plural, kind } : childResource(kind)
}

const matches = (text: string, pattern: RegExp | string) =>
  typeof pattern === 'string' ? text.includes(pattern) : pattern.test(text)

function conditionOf(object: LiveObject | undefined, type: string): string {
  const told = object?.status?.conditions?.find((one) => one.type === type)
  return told ? `${told.status} ${told.reason}: ${told.message}` : ''
}

export async function startStage(): Promise<Stage> {
  const cluster = newCluster()
  await cluster.start()
  const { plane, kubectl } = cluster
  const config = loadKubeConfig(plane.kubeconfig)
  const api = new ApiServer(config, 'test')

  const find: Stage['find'] = async (kind, name, namespace = 'default') => {
    try {
      return await api.get<LiveObject>(resourceOf(kind), namespace, name)
    } catch (error) {
      if (isNotFound(error)) return undefined
      throw error
    }
  }
  const configOf = async (child: string) =>
    Object.values<string>((await find('ConfigMap', `${child}-config`))?.data ?? {}).join('\n')

  return {
    plane,
    apply: (...manifests) => void cluster.apply(...manifests),
    put(kind, texts) {
      const field = kind === 'Secret' ? 'stringData' : 'data'
      const object = (name: string) => ({ apiVersion: 'v1', kind, metadata: { name, namespace: 'default' } })
      cluster.apply(...Object.entries(texts).map(([name, content]) => ({ ...object(name), [field]: content })))
    },
    remove: (...names) => void kubectl(['delete', ...names, '--wait=false']),
    find,
    get: async (kind, name) => given(await find(kind, name), `${kind} ${name}`),
    podsWith: async (labelSelector) =>
      (await api.list<LiveObject>(PODS, 'default', { query: { labelSelector } })).items ?? [],
    until: (kind, name, wanted = () => true, namespace = 'default') =>
      eventually(async () => {
        const object = await find(kind, name, namespace)
        if (object === undefined) throw new Error('it is not there')
        if (wanted(object)) return object
        const { metadata, ...rest } = object
        throw new Error(JSON.stringify({ ...rest, metadata: { ...metadata, managedFields: undefined } }))
      }, `${kind} ${name}: ${wanted}`),
    async gone(kind, name) {
      await eventually(async () => (await find(kind, name)) === undefined, `${kind} ${name} goes`)
    },
    configOf,
    async configured(child, pattern) {
      await eventually(async () => matches(await configOf(child), pattern), `the configuration of ${child}: ${pattern}`)
    },
    said: (kind, name, type, pattern) =>
      eventually(async () => {
        const told = conditionOf(await find(kind, name), type)
        if (matches(told, pattern)) return told || 'nothing'
        throw new Error(told || 'nothing is said')
      }, `${kind} ${name}, ${type}: ${pattern}`),
    async events(kind, name, reason, count) {
      await eventually(async () => {
        const { items } = await api.list<LiveObject>(EVENTS, 'default', {})
        const about = (items ?? []).filter(({ regarding }) => regarding?.kind === kind && regarding.name === name)
        return about.filter((one) => one.reason === reason).length === count
      }, `${count} events ${reason} of ${kind} ${name}`)
    },
    counting(...names) {
      const before = plane.writes().length
      return () =>
        plane
          .writes()
          .slice(before)
          .filter(({ user, resource, name }) => user === OPERATOR_USER && resource !== 'events' && names.includes(name))
          .map(({ verb, resource, name }) => `${verb} ${resource} ${name}`)
    },
    async stop() {
      await config.closePool()
      await cluster.stop()
    },
  }
}
