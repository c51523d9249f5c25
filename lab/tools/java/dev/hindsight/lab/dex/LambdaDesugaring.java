// SPDX-License-Identifier: Apache-2.0
package dev.hindsight.lab.dex;

import static org.objectweb.asm.Opcodes.*;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Handle;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FieldInsnNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.InvokeDynamicInsnNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.TypeInsnNode;
import org.objectweb.asm.tree.VarInsnNode;

/**
 * Turns lambdas and method references into classes, as d8 does: Android has no LambdaMetafactory.
 *
 * <p>A call site becomes {@code Outer$$Lambda$N.INSTANCE}, or {@code Outer$$Lambda$N.make(captured…)}
 * if the lambda captures something. The bodies that javac has put into private {@code lambda$…}
 * methods become package-private and static; what else is not accessible from another class gets an
 * accessor.
 */
final class LambdaDesugaring {
  private static final String METAFACTORY = "java/lang/invoke/LambdaMetafactory";

  // Flags of LambdaMetafactory.altMetafactory.
  private static final int SERIALIZABLE = 1;
  private static final int MARKERS = 2;
  private static final int BRIDGES = 4;

  private final ClassPool pool;

  LambdaDesugaring(ClassPool pool) {
    this.pool = pool;
  }

  void run() {
    for (ClassNode node : pool.all()) {
      new Outer(node).desugar();
    }
  }

  /** What a lambda's class calls: a method handle's parts, adjusted. */
  private static final class Target {
    int kind;
    String owner;
    String name;
    String desc;
    boolean isInterface;

    Target(Handle handle) {
      kind = handle.getTag();
      owner = handle.getOwner();
      name = handle.getName();
      desc = handle.getDesc();
      isInterface = handle.isInterface();
    }

    /** The types that the call takes, receiver first. */
    List<Type> parameters() {
      List<Type> types = new ArrayList<>();
      if (kind != H_INVOKESTATIC && kind != H_NEWINVOKESPECIAL) {
        types.add(Type.getObjectType(owner));
      }
      types.addAll(Arrays.asList(Type.getArgumentTypes(desc)));
      return types;
    }

    Type result() {
      return kind == H_NEWINVOKESPECIAL ? Type.getObjectType(owner) : Type.getReturnType(desc);
    }

    int opcode() {
      switch (kind) {
        case H_INVOKESTATIC:
          return INVOKESTATIC;
        case H_INVOKEINTERFACE:
          return INVOKEINTERFACE;
        case H_INVOKEVIRTUAL:
          return INVOKEVIRTUAL;
        default:
          return INVOKESPECIAL;
      }
    }
  }

  /** A class with lambdas in it. */
  private final class Outer {
    private final ClassNode node;
    private final boolean isInterface;
    private final Map<String, MethodNode> methods = new HashMap<>();
    private final Set<MethodNode> becomeStatic = new LinkedHashSet<>();
    private final Map<String, MethodNode> accessors = new LinkedHashMap<>();
    private int lambdas;

    Outer(ClassNode node) {
      this.node = node;
      isInterface = (node.access & ACC_INTERFACE) != 0;
      for (MethodNode method : node.methods) {
        methods.put(method.name + method.desc, method);
      }
    }

    void desugar() {
      for (MethodNode method : new ArrayList<>(node.methods)) {
        for (AbstractInsnNode insn : method.instructions.toArray()) {
          if (insn instanceof InvokeDynamicInsnNode) {
            InvokeDynamicInsnNode indy = (InvokeDynamicInsnNode) insn;
            if (indy.bsm.getOwner().equals(METAFACTORY)) {
              method.instructions.set(insn, desugar(indy));
            }
          }
        }
      }
      for (MethodNode method : becomeStatic) {
        makeStatic(method);
      }
      node.methods.addAll(accessors.values());
    }

    private AbstractInsnNode desugar(InvokeDynamicInsnNode indy) {
      Type factory = Type.getMethodType(indy.desc);
      Set<String> interfaces = new LinkedHashSet<>();
      interfaces.add(factory.getReturnType().getInternalName());
      Set<String> descriptors = new LinkedHashSet<>();
      descriptors.add(((Type) indy.bsmArgs[0]).getDescriptor());
      if (indy.bsm.getName().equals("altMetafactory")) {
        int flags = (Integer) indy.bsmArgs[3];
        int at = 4;
        if ((flags & MARKERS) != 0) {
          for (int n = (Integer) indy.bsmArgs[at++]; n > 0; n--) {
            interfaces.add(((Type) indy.bsmArgs[at++]).getInternalName());
          }
        }
        if ((flags & BRIDGES) != 0) {
          for (int n = (Integer) indy.bsmArgs[at++]; n > 0; n--) {
            descriptors.add(((Type) indy.bsmArgs[at++]).getDescriptor());
          }
        }
        if ((flags & SERIALIZABLE) != 0) {
          interfaces.add("java/io/Serializable");
        }
      }
      Target target = accessible(new Target((Handle) indy.bsmArgs[1]));
      String name = node.name + "$$Lambda$" + lambdas++;
      pool.add(
          lambdaClass(
              name, interfaces, factory, indy.name, descriptors, (Type) indy.bsmArgs[2], target));
      if (factory.getArgumentTypes().length == 0) {
        return new FieldInsnNode(GETSTATIC, name, "INSTANCE", "L" + name + ";");
      }
      String make = Type.getMethodDescriptor(Type.getObjectType(name), factory.getArgumentTypes());
      return new MethodInsnNode(INVOKESTATIC, name, "make", make, false);
    }

    /** Sees to it that another class of the package can call the target. */
    private Target accessible(Target target) {
      MethodNode own = target.owner.equals(node.name) ? methods.get(target.name + target.desc) : null;
      if (own != null && (own.access & ACC_SYNTHETIC) != 0 && own.name.startsWith("lambda$")) {
        own.access &= ~(ACC_PRIVATE | ACC_PROTECTED);
        if (isInterface) {
          own.access |= ACC_PUBLIC;
        }
        if ((own.access & ACC_STATIC) == 0) {
          becomeStatic.add(own);
        }
        if (target.kind != H_INVOKESTATIC) {
          target.kind = H_INVOKESTATIC;
          target.desc = withReceiver(node.name, target.desc);
        }
        return target;
      }
      boolean isPrivate = own != null && (own.access & ACC_PRIVATE) != 0;
      // A protected method of a superclass in another package.
      boolean inherited =
          own == null
              && target.kind != H_INVOKEINTERFACE
              && target.owner.equals(node.superName)
              && !packageOf(target.owner).equals(packageOf(node.name));
      if (!isPrivate && target.kind != H_INVOKESPECIAL && !inherited) {
        return target;
      }
      String key = target.kind + target.owner + target.name + target.desc;
      MethodNode accessor = accessors.get(key);
      if (accessor == null) {
        accessor = accessor(target, isPrivate);
        accessors.put(key, accessor);
      }
      target.kind = H_INVOKESTATIC;
      target.owner = node.name;
      target.name = accessor.name;
      target.desc = accessor.desc;
      target.isInterface = isInterface;
      return target;
    }

    private MethodNode accessor(Target target, boolean isPrivate) {
      boolean isNew = target.kind == H_NEWINVOKESPECIAL;
      boolean isStatic = target.kind == H_INVOKESTATIC;
      String desc = target.desc;
      if (isNew) {
        desc = desc.substring(0, desc.lastIndexOf(')') + 1) + "L" + target.owner + ";";
      } else if (!isStatic) {
        boolean own = target.kind == H_INVOKESPECIAL || target.owner.equals(node.superName);
        desc = withReceiver(own ? node.name : target.owner, desc);
      }
      int access = ACC_STATIC | ACC_SYNTHETIC | (isInterface ? ACC_PUBLIC : 0);
      MethodNode method =
          new MethodNode(access, "access$lambda$" + accessors.size(), desc, null, null);
      InsnList code = method.instructions;
      if (isNew) {
        code.add(new TypeInsnNode(NEW, target.owner));
        code.add(new InsnNode(DUP));
      }
      int slot = 0;
      for (Type type : Type.getArgumentTypes(desc)) {
        code.add(new VarInsnNode(type.getOpcode(ILOAD), slot));
        slot += type.getSize();
      }
      int opcode = INVOKEVIRTUAL;
      if (isStatic) {
        opcode = INVOKESTATIC;
      } else if (isNew || isPrivate || target.kind == H_INVOKESPECIAL) {
        opcode = INVOKESPECIAL;
      }
      code.add(
          new MethodInsnNode(opcode, target.owner, target.name, target.desc, target.isInterface));
      code.add(new InsnNode(Type.getReturnType(desc).getOpcode(IRETURN)));
      method.maxStack = slot + 4;
      method.maxLocals = slot;
      return method;
    }

    /** Makes an instance method static, with its receiver as first parameter; the code stays. */
    private void makeStatic(MethodNode method) {
      String oldDesc = method.desc;
      method.access |= ACC_STATIC;
      method.desc = withReceiver(node.name, oldDesc);
      method.signature = null;
      for (MethodNode caller : node.methods) {
        for (AbstractInsnNode insn : caller.instructions) {
          if (insn instanceof MethodInsnNode) {
            MethodInsnNode call = (MethodInsnNode) insn;
            if (call.owner.equals(node.name)
                && call.name.equals(method.name)
                && call.desc.equals(oldDesc)) {
              call.setOpcode(INVOKESTATIC);
              call.desc = method.desc;
            }
          }
        }
      }
    }

    private byte[] lambdaClass(
        String name,
        Set<String> interfaces,
        Type factory,
        String methodName,
        Set<String> descriptors,
        Type instantiated,
        Target target) {
      ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
      int access = ACC_FINAL | ACC_SUPER | ACC_SYNTHETIC | (isInterface ? ACC_PUBLIC : 0);
      // Java 6 needs no stack maps, and none of these methods branches.
      writer.visit(
          V1_6, access, name, null, "java/lang/Object", interfaces.toArray(new String[0]));
      Type[] captured = factory.getArgumentTypes();
      String constructor = Type.getMethodDescriptor(Type.VOID_TYPE, captured);
      constructor(writer, name, constructor, captured);
      if (captured.length == 0) {
        singleton(writer, name);
      } else {
        make(writer, name, constructor, captured);
      }
      for (String desc : descriptors) {
        MethodVisitor code = writer.visitMethod(ACC_PUBLIC, methodName, desc, null, null);
        code.visitCode();
        call(code, name, captured, desc, instantiated, target);
        code.visitMaxs(0, 0);
        code.visitEnd();
      }
      writer.visitEnd();
      return writer.toByteArray();
    }
  }

  private static void constructor(ClassWriter writer, String name, String desc, Type[] captured) {
    MethodVisitor code = writer.visitMethod(ACC_PRIVATE, "<init>", desc, null, null);
    code.visitCode();
    code.visitVarInsn(ALOAD, 0);
    code.visitMethodInsn(INVOKESPECIAL, "java/lang/Object", "<init>", "()V", false);
    int slot = 1;
    for (int i = 0; i < captured.length; i++) {
      String type = captured[i].getDescriptor();
      writer.visitField(ACC_PRIVATE | ACC_FINAL, "f" + i, type, null, null).visitEnd();
      code.visitVarInsn(ALOAD, 0);
      code.visitVarInsn(captured[i].getOpcode(ILOAD), slot);
      code.visitFieldInsn(PUTFIELD, name, "f" + i, type);
      slot += captured[i].getSize();
    }
    code.visitInsn(RETURN);
    code.visitMaxs(0, 0);
    code.visitEnd();
  }

  private static void singleton(ClassWriter writer, String name) {
    String type = "L" + name + ";";
    int access = ACC_STATIC | ACC_FINAL | ACC_PUBLIC;
    writer.visitField(access, "INSTANCE", type, null, null).visitEnd();
    MethodVisitor code = writer.visitMethod(ACC_STATIC, "<clinit>", "()V", null, null);
    code.visitCode();
    code.visitTypeInsn(NEW, name);
    code.visitInsn(DUP);
    code.visitMethodInsn(INVOKESPECIAL, name, "<init>", "()V", false);
    code.visitFieldInsn(PUTSTATIC, name, "INSTANCE", type);
    code.visitInsn(RETURN);
    code.visitMaxs(0, 0);
    code.visitEnd();
  }

  private static void make(ClassWriter writer, String name, String constructor, Type[] captured) {
    String desc = Type.getMethodDescriptor(Type.getObjectType(name), captured);
    MethodVisitor code = writer.visitMethod(ACC_STATIC | ACC_PUBLIC, "make", desc, null, null);
    code.visitCode();
    code.visitTypeInsn(NEW, name);
    code.visitInsn(DUP);
    int slot = 0;
    for (Type type : captured) {
      code.visitVarInsn(type.getOpcode(ILOAD), slot);
      slot += type.getSize();
    }
    code.visitMethodInsn(INVOKESPECIAL, name, "<init>", constructor, false);
    code.visitInsn(ARETURN);
    code.visitMaxs(0, 0);
    code.visitEnd();
  }

  /** The body of the interface's method: converts the arguments, calls the target, and returns. */
  private static void call(
      MethodVisitor code,
      String name,
      Type[] captured,
      String desc,
      Type instantiated,
      Target target) {
    if (target.kind == H_NEWINVOKESPECIAL) {
      code.visitTypeInsn(NEW, target.owner);
      code.visitInsn(DUP);
    }
    List<Type> parameters = target.parameters();
    int parameter = 0;
    for (int i = 0; i < captured.length; i++) {
      code.visitVarInsn(ALOAD, 0);
      code.visitFieldInsn(GETFIELD, name, "f" + i, captured[i].getDescriptor());
      convert(code, captured[i], captured[i], parameters.get(parameter++));
    }
    Type[] arguments = Type.getArgumentTypes(desc);
    Type[] actual = instantiated.getArgumentTypes();
    int slot = 1;
    for (int i = 0; i < arguments.length; i++) {
      code.visitVarInsn(arguments[i].getOpcode(ILOAD), slot);
      slot += arguments[i].getSize();
      convert(code, arguments[i], actual[i], parameters.get(parameter++));
    }
    int opcode = target.opcode();
    boolean isInterface = target.isInterface || opcode == INVOKEINTERFACE;
    code.visitMethodInsn(opcode, target.owner, target.name, target.desc, isInterface);
    Type result = target.result();
    Type wanted = Type.getReturnType(desc);
    if (wanted.getSort() != Type.VOID) {
      convert(code, result, result, wanted);
    } else if (result.getSize() == 2) {
      code.visitInsn(POP2);
    } else if (result.getSize() == 1) {
      code.visitInsn(POP);
    }
    code.visitInsn(wanted.getOpcode(IRETURN));
  }

  /** Turns a value of static type {@code have}, known to be an {@code actual}, into a {@code want}. */
  private static void convert(MethodVisitor code, Type have, Type actual, Type want) {
    if (isPrimitive(have)) {
      if (isPrimitive(want)) {
        widen(code, have, want);
        return;
      }
      Type unboxed = unboxed(want);
      Type boxed = have;
      if (unboxed != null && unboxed.getSort() != have.getSort()) {
        widen(code, have, unboxed);
        boxed = unboxed;
      }
      String box = BOXES[boxed.getSort()];
      String desc = "(" + boxed.getDescriptor() + ")L" + box + ";";
      code.visitMethodInsn(INVOKESTATIC, box, "valueOf", desc, false);
      return;
    }
    if (isPrimitive(want)) {
      Type unboxed = unboxed(actual);
      if (unboxed == null) {
        unboxed = unboxed(have);
      }
      if (unboxed == null) {
        unboxed = want;
      }
      String box = BOXES[unboxed.getSort()];
      if (!have.getInternalName().equals(box)) {
        code.visitTypeInsn(CHECKCAST, box);
      }
      String method = unboxed.getClassName() + "Value";
      code.visitMethodInsn(INVOKEVIRTUAL, box, method, "()" + unboxed.getDescriptor(), false);
      widen(code, unboxed, want);
      return;
    }
    if (!have.equals(want) && !want.getInternalName().equals("java/lang/Object")) {
      code.visitTypeInsn(CHECKCAST, want.getInternalName());
    }
  }

  /** The boxes of the primitive types, by the type's sort (VOID has none). */
  private static final String[] BOXES = {
    null,
    "java/lang/Boolean",
    "java/lang/Character",
    "java/lang/Byte",
    "java/lang/Short",
    "java/lang/Integer",
    "java/lang/Float",
    "java/lang/Long",
    "java/lang/Double",
  };

  private static final Type[] PRIMITIVES = {
    null,
    Type.BOOLEAN_TYPE,
    Type.CHAR_TYPE,
    Type.BYTE_TYPE,
    Type.SHORT_TYPE,
    Type.INT_TYPE,
    Type.FLOAT_TYPE,
    Type.LONG_TYPE,
    Type.DOUBLE_TYPE,
  };

  private static boolean isPrimitive(Type type) {
    return type.getSort() < Type.ARRAY;
  }

  /** The primitive type in a box; null if the type is not a box. */
  private static Type unboxed(Type type) {
    for (int i = 1; i < BOXES.length; i++) {
      if (type.getSort() == Type.OBJECT && type.getInternalName().equals(BOXES[i])) {
        return PRIMITIVES[i];
      }
    }
    return null;
  }

  private static void widen(MethodVisitor code, Type from, Type to) {
    if (from.getSort() == to.getSort()) {
      return;
    }
    switch (from.getSort()) {
      case Type.FLOAT:
        if (to.getSort() == Type.DOUBLE) {
          code.visitInsn(F2D);
        }
        return;
      case Type.LONG:
        if (to.getSort() == Type.FLOAT) {
          code.visitInsn(L2F);
        } else if (to.getSort() == Type.DOUBLE) {
          code.visitInsn(L2D);
        }
        return;
      case Type.DOUBLE:
        return;
      default:
        // The types that are ints on the stack.
        if (to.getSort() == Type.LONG) {
          code.visitInsn(I2L);
        } else if (to.getSort() == Type.FLOAT) {
          code.visitInsn(I2F);
        } else if (to.getSort() == Type.DOUBLE) {
          code.visitInsn(I2D);
        }
    }
  }

  private static String packageOf(String name) {
    int slash = name.lastIndexOf('/');
    return slash < 0 ? "" : name.substring(0, slash);
  }

  private static String withReceiver(String owner, String desc) {
    return "(L" + owner + ";" + desc.substring(1);
  }
}
