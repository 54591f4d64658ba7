import { outputWatch } from '../../secrets/watch.ts'

/** One line of the metrics. */
interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface Scraped {
  readonly text: string
  readonly contentType: string
  readonly samples: readonly Sample[]
  /**
   * Returns the value of the only series with this name and these labels (and maybe others); undefined if there is none
   * or several.
   */
  value(name: string, labels?: Readonly<Record<string, string>>): number | undefined
}

const LINE = /^([A-Za-z_][A-Za-z0-9_]*)(?:\{(.*)\})? (\S+)$/
const PAIR = /([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)/gy

/** Fetches the metrics of an admin listener. Throws if they are not served, or at a malformed line. */
export async function scrape(adminUrl: string, accept = 'text/plain'): Promise<Scraped> {
  const response = await fetch(`${adminUrl}/metrics`, { headers: { accept } })
  const text = await response.text()
  outputWatch('prometheus')(text)
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return parseScrape(text, response.headers.get('content-type') ?? '')
}

export function parseScrape(text: string, contentType = ''): Scraped {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  const samples = lines.map(parseSample)
  return {
    text,
    contentType,
    samples,
    value(name, labels = {}) {
      const found = samples.filter(
        (sample) =>
          sample.name === name && Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
      )
      return found.length === 1 ? found[0]?.value : undefined
    },
  }
}

function parseSample(line: string): Sample {
  const [, name = '', pairs = '', value] = LINE.exec(line) ?? []
  const found = [...pairs.matchAll(PAIR)]
  const isWhole = found.reduce((length, [pair]) => length + pair.length, 0) === pairs.length
  if (name === '' || !isWhole || Number.isNaN(Number(value))) throw new Error(`no sample: ${line}`)
  const labels = found.map(([, label = '', text = '']): [string, string] => [label, text])
  if (new Set(labels.map(([label]) => label)).size < labels.length) throw new Error(`a label twice: ${line}`)
  return { name, labels: Object.fromEntries(labels), value: Number(value) }
}
