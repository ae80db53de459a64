import { job } from '../../handlers.ts'
import { forgetTraces } from './forgetting.ts'

export const jobs = [job('customers.forget', forgetTraces)]
