import { median } from '../percentile.ts'

/** What a figure is by several samples of it, and how far that may be off. */
export interface Estimate {
  readonly median: number
  /** Standard error of the median. */
  readonly error: number
  readonly least: number
  readonly most: number
}

/** A figure and its error as people read it; the figure alone where nothing is known of its error. */
export const withError = (figure: number, error: number, digits: number): string =>
  figure.toFixed(digits) + (Number.isNaN(error) ? '' : ` ± ${error.toFixed(digits)}`)

/** A median scatters so much more than a mean does, where samples are spread normally. */
const MEDIAN_BY_MEAN = Math.sqrt(Math.PI / 2)

/** Estimates a figure. With a single sample nothing is known of its error: it is NaN. */
export function estimate(samples: readonly number[]): Estimate {
  const { length } = samples
  const mean = samples.reduce((sum, sample) => sum + sample, 0) / length
  const variance = samples.reduce((sum, sample) => sum + (sample - mean) ** 2, 0) / (length - 1)
  const error = MEDIAN_BY_MEAN * Math.sqrt(variance / length)
  return { median: median(samples), error, least: Math.min(...samples), most: Math.max(...samples) }
}
