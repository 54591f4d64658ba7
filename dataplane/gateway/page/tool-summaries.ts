import { type Catalog, shownToolsOf } from '../aggregation/catalog.ts'
import { Elements, memberText } from '../mcp/json.ts'

/** A tool as a page shows it. */
export interface ToolSummary {
  readonly name: string
  readonly description: string
}

interface ToolSummaries {
  /** The first of them, in the catalog's order. */
  readonly tools: readonly ToolSummary[]
  /** How many there are in all. */
  readonly total: number
  /** Of each backend that has any, by its name. */
  readonly countOf: ReadonlyMap<string, number>
}

/** What backends write has no bound in length or number that suits a page. */
const MOST_TOOLS = 200
const LONGEST_NAME = 128
const LONGEST_DESCRIPTION = 300
/** Bytes of the list that are read for the page: some thousand ordinary tools, and a few milliseconds at most. */
const MOST_READ = 2 ** 21
/** A description whose JSON text is longer is not read. */
const MOST_DESCRIPTION_READ = 2 ** 16

const made = new WeakMap<Catalog, ToolSummaries>()

/** The tools of a catalog in short form; made once for each catalog, however often it is asked for. */
export function toolSummaries(catalog: Catalog): ToolSummaries {
  let summaries = made.get(catalog)
  if (summaries === undefined) made.set(catalog, (summaries = summarize(catalog)))
  return summaries
}

function summarize(catalog: Catalog): ToolSummaries {
  const { routes, legacyList } = catalog
  const countOf = shownToolsOf(catalog)
  // The text may end amid a tool, which is then left out.
  const text = legacyList.subarray(0, MOST_READ).toString()
  const elements = new Elements(text, text.indexOf('['))
  const tools: ToolSummary[] = []
  while (tools.length < MOST_TOOLS && elements.next()) {
    const tool = elements.value
    tools.push({ name: stringMember(tool, 'name', LONGEST_NAME), description: descriptionOf(tool) })
  }
  return { tools, total: routes.size, countOf }
}

const descriptionOf = (tool: string) =>
  stringMember(tool, 'description', LONGEST_DESCRIPTION) || stringMember(tool, 'title', LONGEST_DESCRIPTION)

/** A member that is a string, cut to `longest`; empty where there is none. */
function stringMember(object: string, name: string, longest: number): string {
  const text = memberText(object, name)
  if (text === undefined || text.length > MOST_DESCRIPTION_READ || !text.startsWith('"')) return ''
  try {
    return shortened(JSON.parse(text) as string, longest)
  } catch {
    return ''
  }
}

/** A text of `longest` characters at most; one that is cut ends in an ellipsis. */
export const shortened = (text: string, longest: number): string =>
  (text.length <= longest ? text : `${text.slice(0, longest - 1)}…`).toWellFormed()
