import { median } from '../percentile.ts'

/** The median of samples and its standard error. */
export interface Estimate {
  readonly median: number
  /** Standard error of the median. */
  readonly error: number
  readonly least: number
  readonly most: number
}

/** Formats a figure with its error; without the error if that is unknown. */
export const withError = (figure: number, error: number, digits: number): string =>
  figure.toFixed(digits) + (Number.isNaN(error) ? '' : ` ± ${error.toFixed(digits)}`)

/** The standard error of a median is this many times that of a mean, for normally distributed samples. */
const MEDIAN_BY_MEAN = Math.sqrt(Math.PI / 2)

/** Estimates a figure. The error of a single sample is NaN. */
export function estimate(samples: readonly number[]): Estimate {
  const { length } = samples
  const mean = samples.reduce((sum, sample) => sum + sample, 0) / length
  const variance = samples.reduce((sum, sample) => sum + (sample - mean) ** 2, 0) / (length - 1)
  const error = MEDIAN_BY_MEAN * Math.sqrt(variance / length)
  return { median: median(samples), error, least: Math.min(...samples), most: Math.max(...samples) }
}
