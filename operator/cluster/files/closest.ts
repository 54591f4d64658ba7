export { closest } from '../../../crds/shared/closest.ts'
