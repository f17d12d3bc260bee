import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm';

/** On purpose without a unique claim number: that there is one case per claim is the inbox's doing alone. */
@Entity('cases')
export class Case {
  @PrimaryGeneratedColumn()
  id!: number;

  @Column({ type: 'varchar', length: 20, name: 'claim_number' })
  claimNumber!: string;
}
