import { ResourceEventType } from '@dot-i/k8s-operator'
import type { Logger } from 'pino'
import type { Steps } from '../../../crds/settings/stepwise.ts'
import type { KubernetesObject, ObjectName, World } from '../../model/index.ts'
import { canonicalJson } from '../../render/object/canonical.ts'
import { type Dependency, onList, onObject, onReferrers } from './dependencies.ts'
import type { ReflectedStore } from './reflector.ts'

/** Returns what others read of an object besides its spec, as text. */
const formatMetadata = ({ metadata: { resourceVersion: _, finalizers: __, ...metadata } }: KubernetesObject) =>
  canonicalJson(metadata)

/** Tells whether a change affects only status and finalizers. A new spec has a new generation. */
export const isOwnAffair = (before: KubernetesObject, after: KubernetesObject): boolean =>
  after.metadata.generation !== undefined && formatMetadata(before) === formatMetadata(after)

export const hasSameFinalizers = (a: KubernetesObject, b: KubernetesObject): boolean =>
  canonicalJson(a.metadata.finalizers ?? []) === canonicalJson(b.metadata.finalizers ?? [])

/** Drops `managedFields` from an object of one of our kinds: nobody reads them, and they are half of it. */
export function trimObject(object: KubernetesObject): KubernetesObject {
  delete (object.metadata as KubernetesObject['metadata'] & { managedFields?: unknown }).managedFields
  return object
}

interface KindStoreOptions {
  readonly world: World
  readonly kind: string
  /** Called with each change, so that the objects that have read it are due again. */
  readonly onChange: (dependency: Dependency) => void
  readonly onObject: (type: ResourceEventType, object: KubernetesObject) => void
  /** Tells whether the object has the status that we are writing to it. */
  readonly isEcho: (object: KubernetesObject) => boolean
  readonly log: Logger
}

/** Feeds the watch of one kind into the world, and reports each change. */
export function kindStore(options: KindStoreOptions): ReflectedStore {
  const { world, kind, log } = options
  const known = new Map<string, { namespace: string; name: string }>()

  const reportChange = (type: ResourceEventType, object: KubernetesObject, references: readonly ObjectName[]) => {
    const { namespace = '', name } = object.metadata
    options.onChange(onObject(kind, namespace, name))
    options.onChange(onList(kind, namespace))
    for (const target of references) options.onChange(onReferrers(target.kind, namespace, target.name))
    options.onObject(type, object)
  }

  const put = (object: KubernetesObject) => {
    const { namespace = '', name, resourceVersion } = object.metadata
    const before = world.objects.get(kind, namespace, name)
    if (before && before.metadata.resourceVersion === resourceVersion && before.metadata.uid === object.metadata.uid)
      return
    const referencesBefore = world.objects.references(kind, namespace, name)
    try {
      world.objects.put(object)
    } catch (error) {
      // The object was stored under an earlier schema. It must not affect the others.
      log.error({ kind, namespace, name, err: error }, 'an object is malformed and left out')
      return
    }
    known.set(`${namespace}/${name}`, { namespace, name })
    if (before && isOwnAffair(before, object)) {
      if (!hasSameFinalizers(before, object) || !options.isEcho(object))
        options.onObject(ResourceEventType.Modified, object)
      return
    }
    reportChange(before ? ResourceEventType.Modified : ResourceEventType.Added, object, [
      ...referencesBefore,
      ...world.objects.references(kind, namespace, name),
    ])
  }

  const remove = (namespace: string, name: string) => {
    const object = world.objects.get(kind, namespace, name)
    if (!known.delete(`${namespace}/${name}`) || !object) return
    const references = world.objects.references(kind, namespace, name)
    world.objects.delete(kind, namespace, name)
    reportChange(ResourceEventType.Deleted, object, references)
  }

  return {
    put,
    remove: ({ metadata }) => remove(metadata.namespace ?? '', metadata.name),
    *replace(objects): Steps<void> {
      const present = new Set(objects.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`))
      for (const [key, { namespace, name }] of [...known]) {
        if (present.has(key)) continue
        remove(namespace, name)
        yield
      }
      for (const object of objects) {
        put(object)
        yield
      }
    },
  }
}
