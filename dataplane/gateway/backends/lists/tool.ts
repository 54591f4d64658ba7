import { isObject } from '../../../../crds/settings/json.ts'
import { appOf, type ToolApp } from '../../mcp/apps.ts'
import { InvalidParamHeader, type ParamHeader, paramHeadersOf } from '../../mcp/headers.ts'
import { type ListPage, type NewEntry, type ReadPage, readPage } from './list-page.ts'

/** A tool as its backend shows it. */
export interface BackendTool {
  readonly name: string
  /** The backend's own JSON text, with repairs only: unknown members are shown unchanged. */
  readonly text: string
  readonly paramHeaders: readonly ParamHeader[]
  readonly app: ToolApp | undefined
  /** True if the tool declares that a call may be repeated: it changes nothing, or nothing more the second time. */
  readonly isRepeatable: boolean
}

/**
 * Reads the answer to `tools/list`. Omits a tool with invalid header declarations (2026-07-28, transports: a client
 * must drop it), and a tool that clients refuse. The list ends at the first tool that `fits` refuses. Throws a
 * TypeError if the answer holds no list.
 */
export function readToolPage(answer: string, fits?: (textLength: number) => boolean): ListPage<BackendTool> {
  return readPage(answer, TOOLS, toolIn, fits)
}

const TOOLS: ReadPage = { kind: 'tools', member: 'tools', key: 'name' }

/** Returns a tool, or the rule that omits it. */
function toolIn({ key, text, value }: NewEntry): BackendTool | string {
  try {
    return {
      name: key,
      text,
      paramHeaders: paramHeadersOf(value['inputSchema']),
      app: appOf(value),
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
