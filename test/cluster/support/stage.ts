/** A control plane with an operator that has its own rights, and short functions that tests use on both. */

import type { LiveObject } from '../../support/operator/live-object.ts'
import { unwrap } from '../../support/unwrap.ts'
import { newCluster } from './cluster.ts'
import type { ControlPlane } from './control-plane.ts'
import type { Manifest } from './manifests.ts'
import { eventually, OPERATOR_USER } from './operator-process.ts'

type Texts = Readonly<Record<string, string>>

export interface Stage {
  /** The control plane. Throws before `start`. */
  readonly plane: ControlPlane
  start(): Promise<void>
  apply(...manifests: readonly Manifest[]): void
  /** Applies Secrets or ConfigMaps: a map of names to their data. */
  put(kind: 'Secret' | 'ConfigMap', texts: Readonly<Record<string, Texts>>): void
  /** Deletes objects, as `kind/name`, without waiting for them to go. */
  remove(...names: readonly string[]): void
  /** Returns an object of our kinds or of a kind of child, or undefined if it does not exist. */
  find(kind: string, name: string, namespace?: string): Promise<LiveObject | undefined>
  /** Returns an object as `find` does; throws if it does not exist. */
  get(kind: string, name: string): Promise<LiveObject>
  podsWith(labels: string): LiveObject[]
  /** Waits until an object satisfies `wanted`, or without `wanted` until it exists, and returns it. */
  until(kind: string, name: string, wanted?: (object: LiveObject) => unknown, namespace?: string): Promise<LiveObject>
  waitUntilGone(kind: string, name: string): Promise<void>
  /** Returns the data plane's configuration file from the ConfigMap of a workload. */
  readConfig(child: string): Promise<string>
  /** Waits until the configuration file matches. */
  waitForConfig(child: string, pattern: RegExp | string): Promise<void>
  /** Waits until a condition (`True Reason: message`; empty if there is none) matches, and returns it. */
  waitForCondition(kind: string, name: string, type: string, pattern: RegExp | string): Promise<string>
  /** Waits until `count` events about an object have been written for a reason. */
  waitForEvents(kind: string, name: string, reason: string, count: number): Promise<void>
  /**
   * Returns a function that returns the operator's writes to objects of these names since this call, without Events.
   */
  recordWrites(...names: readonly string[]): () => readonly string[]
  stop(): Promise<void>
}

const matches = (text: string, pattern: RegExp | string) =>
  typeof pattern === 'string' ? text.includes(pattern) : pattern.test(text)

function readCondition(object: LiveObject | undefined, type: string): string {
  const condition = object?.status?.conditions?.find((one) => one.type === type)
  return condition ? `${condition.status} ${condition.reason}: ${condition.message}` : ''
}

export function newStage(): Stage {
  const cluster = newCluster()
  const find: Stage['find'] = async (kind, name, namespace) => cluster.find(kind, name, namespace)
  const readConfig = async (child: string) =>
    Object.values<string>((await find('ConfigMap', `${child}-config`))?.data ?? {}).join('\n')

  return {
    get plane() {
      return cluster.plane
    },
    start: () => cluster.start(),
    apply: (...manifests) => cluster.apply(...manifests),
    put(kind, texts) {
      const field = kind === 'Secret' ? 'stringData' : 'data'
      const object = (name: string) => ({ apiVersion: 'v1', kind, metadata: { name, namespace: 'default' } })
      cluster.apply(...Object.entries(texts).map(([name, content]) => ({ ...object(name), [field]: content })))
    },
    remove(...names) {
      for (const [kind = '', name = ''] of names.map((one) => one.split('/'))) cluster.remove(kind, name)
    },
    find,
    get: async (kind, name) => unwrap(await find(kind, name), `${kind} ${name}`),
    podsWith: (labels) => cluster.list('pods', { labels }),
    until: (kind, name, wanted = () => true, namespace = 'default') =>
      eventually(async () => {
        const object = await find(kind, name, namespace)
        if (object === undefined) throw new Error('it is not there')
        if (wanted(object)) return object
        const { metadata, ...rest } = object
        throw new Error(JSON.stringify({ ...rest, metadata: { ...metadata, managedFields: undefined } }))
      }, `${kind} ${name}: ${wanted}`),
    async waitUntilGone(kind, name) {
      await eventually(async () => (await find(kind, name)) === undefined, `${kind} ${name} is deleted`)
    },
    readConfig,
    async waitForConfig(child, pattern) {
      await eventually(
        async () => matches(await readConfig(child), pattern),
        `the configuration of ${child}: ${pattern}`,
      )
    },
    waitForCondition: (kind, name, type, pattern) =>
      eventually(async () => {
        const condition = readCondition(await find(kind, name), type)
        if (matches(condition, pattern)) return condition || 'nothing'
        throw new Error(condition || 'nothing is said')
      }, `${kind} ${name}, ${type}: ${pattern}`),
    async waitForEvents(kind, name, reason, count) {
      await eventually(() => {
        const about = cluster
          .list('events')
          .filter(({ involvedObject }) => involvedObject?.kind === kind && involvedObject.name === name)
        return about.filter((one) => one.reason === reason).length === count
      }, `${count} events ${reason} of ${kind} ${name}`)
    },
    recordWrites(...names) {
      const before = cluster.plane.writes().length
      return () =>
        cluster.plane
          .writes()
          .slice(before)
          .filter(({ user, resource, name }) => user === OPERATOR_USER && resource !== 'events' && names.includes(name))
          .map(({ verb, resource, name }) => `${verb} ${resource} ${name}`)
    },
    stop: () => cluster.stop(),
  }
}
