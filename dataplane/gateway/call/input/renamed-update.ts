import type { UriNames } from '../../aggregation/uri-names.ts'
import { updatedUri } from '../../backends/session/resource-updates.ts'
import { editObject, paramsText } from '../../mcp/json.ts'
import { parseBytes } from '../../mcp/parse.ts'

/** Returns a backend's message. If it reports a changed resource, its URI is replaced by the one that clients know. */
export function renamedUpdate(bytes: Buffer, names: UriNames | undefined): Buffer {
  const uri = names === undefined ? undefined : updatedUri(parseBytes(bytes))
  const shown = uri === undefined ? undefined : names?.shown(uri)
  if (shown === undefined || shown === uri) return bytes
  const text = bytes.toString('utf8')
  return Buffer.from(editObject(text, { params: editObject(paramsText(text), { uri: JSON.stringify(shown) }) }))
}
