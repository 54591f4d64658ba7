import { isObject } from '../../../../crds/settings/json.ts'
import { readApp, type ToolApp } from '../../mcp/apps.ts'
import { InvalidParamHeader, type ParamHeader, readParamHeaders } from '../../mcp/headers.ts'
import { type ListPage, type NewEntry, type ReadLimits, type ReadPage, readPage } from './list-page.ts'

/** A tool as its backend shows it. */
export interface BackendTool {
  /** Its name. */
  readonly key: string
  /** The backend's own JSON text, with repairs only. Unknown members stay unchanged. */
  readonly text: string
  /** The text before the repairs, if there were any. */
  readonly source?: string | undefined
  readonly paramHeaders: readonly ParamHeader[]
  readonly app: ToolApp | undefined
  /** True if the tool declares that a call may be repeated, because it is read-only or idempotent. */
  readonly isRepeatable: boolean
}

/**
 * Reads the answer to `tools/list`. Omits a tool with invalid header declarations (2026-07-28, transports: a client
 * must drop it), and a tool that clients would refuse. Throws a TypeError if the answer contains no list.
 */
export function readToolPage(answer: string, limits?: ReadLimits): ListPage<BackendTool> {
  return readPage(answer, TOOLS, toolIn, limits)
}

const TOOLS: ReadPage = { kind: 'tools', member: 'tools', key: 'name' }

/** Returns a tool, or the rule that omits it. */
function toolIn({ key, text, source, value }: NewEntry): BackendTool | string {
  try {
    return {
      key,
      text,
      ...(source === undefined ? {} : { source }),
      paramHeaders: readParamHeaders(value['inputSchema']),
      app: readApp(value),
      isRepeatable: isRepeatable(value),
    }
  } catch (error) {
    if (!(error instanceof InvalidParamHeader)) throw error
    return error.message
  }
}

function isRepeatable({ annotations }: Readonly<Record<string, unknown>>): boolean {
  return isObject(annotations) && (annotations['idempotentHint'] === true || annotations['readOnlyHint'] === true)
}
