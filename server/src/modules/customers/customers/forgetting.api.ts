import { job, periodicTask } from '../../handlers.ts'
import { forgetAgain, forgetTraces } from './forgetting.ts'

export const jobs = [job('customers.forget', forgetTraces)]
export const periodicTasks = [periodicTask('customers.forget_again', forgetAgain)]
