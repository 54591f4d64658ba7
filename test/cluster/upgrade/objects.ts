/** Objects of every kind for an operator to reconcile, each file of them in its own namespace. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { kinds } from '../../../crds/index.ts'
import type { Manifest } from '../support/manifests.ts'

const SUFFIX = '.in.yaml'

/** Returns the inputs of a checkout's golden files, without the documents that stand for a cluster. */
export function readObjects(checkout: string): readonly Manifest[] {
  const folder = join(checkout, 'test/operator/golden')
  const files = readdirSync(folder).filter((file) => file.endsWith(SUFFIX))
  return files.flatMap((file) => {
    const namespace = file.slice(0, -SUFFIX.length)
    const documents = parseAllDocuments(readFileSync(join(folder, file), 'utf8'))
    const objects = documents.map((document) => document.toJS() as Manifest).filter(({ kind }) => isApplied(kind))
    return objects.map((object): Manifest => {
      const apiVersion = isOurs(object.kind) ? 'portico.dev/v1beta1' : 'v1'
      const { name, annotations } = object.metadata as Manifest['metadata'] & { annotations?: object }
      const metadata = { name, namespace, ...(annotations ? { annotations } : {}) }
      const { status: _, ...rest } = object
      return { apiVersion, ...rest, metadata } as Manifest
    })
  })
}

const isOurs = (kind: string) => Object.hasOwn(kinds, kind)
const isApplied = (kind: string) => isOurs(kind) || kind === 'Secret' || kind === 'ConfigMap'
