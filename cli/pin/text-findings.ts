import { join } from 'node:path'
import type { Manifest, ManifestFinding } from '../../operator/cluster/files/index.ts'
import { externalReferences } from './external-references.ts'
import { shown as printable } from './hidden.ts'
import { LISTS, pinnedIn } from './pinned.ts'
import { plainText, readTexts } from './text-files.ts'

type PinSpec = Parameters<typeof pinnedIn>[0]

const MOST = 100

/**
 * Compares the texts beside MCPPins with their digests: a text without a digest was edited or not approved, a digest
 * without a text was not reviewed. Also names texts that refer to anything outside.
 */
export function pinTextFindings(manifests: readonly Manifest[]): readonly ManifestFinding[] {
  return manifests.filter(({ id }) => id.kind === 'MCPPin').flatMap(compareTexts)
}

/** Tells what a text refers to outside of itself. A text without a digest may be no JSON. */
const findOutside = ({ list, digest, content }: ReturnType<typeof readTexts>[number]): string | undefined =>
  digest === undefined ? undefined : externalReferences(list, plainText(list, content))

function compareTexts({ object, id, file, lineOf }: Manifest): readonly ManifestFinding[] {
  const folder = file.replace(/\.[^./\\]+$/, '')
  const texts = readTexts(folder)
  if (texts.length === 0) return []
  const pinned = pinnedIn(object['spec'] as PinSpec)
  const found: ManifestFinding[] = texts.flatMap((text) => {
    const message = findOutside(text)
    if (message === undefined) return []
    return [
      { severity: 'warning', reason: 'ExternalReference', message, file: join(folder, text.path), line: 1, object: id },
    ]
  })
  const unread = new Map<string, readonly [string, string]>()
  for (const list of LISTS)
    for (const [name, digests] of pinned[list])
      for (const digest of digests) unread.set(`${list} ${digest}`, [list, name])
  const approved = new Set(unread.keys())
  for (const { list, path, digest } of texts) {
    if (digest !== undefined && approved.has(`${list} ${digest}`)) {
      unread.delete(`${list} ${digest}`)
      continue
    }
    const message = `the text is not the one that MCPPin ${id.namespace}/${id.name} approves: no digest there is its own`
    found.push({ severity: 'error', reason: 'PinTextDiffers', message, file: join(folder, path), line: 1, object: id })
  }
  for (const [list, name] of unread.values()) {
    const message = `${list}${name === '' ? '' : ` ${JSON.stringify(printable(name))}`}: no file beside it has the approved text`
    found.push({ severity: 'warning', reason: 'PinTextMissing', message, file, line: lineOf('/spec'), object: id })
  }
  return found.slice(0, MOST)
}
